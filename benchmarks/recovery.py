"""How long estimates are stale when the aggregator is killed: many keys, and many events since the checkpoint.

    python benchmarks/recovery.py [--keys 10000] [--events 100000]
    python benchmarks/recovery.py --crowd 6000 [--segments 1]

An aggregator has committed a checkpoint of so many keys. It is frozen, so many events come, and it is killed. Measured
is the time from then until a standby's checkpoint holds the last event, and of that until it owned the partition and
until its first commit. With `--crowd` so many interactions with a user id each come at once, and measured is how fresh
the estimates of another pipeline stay meanwhile.
"""

import argparse
import json
import signal
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from crowd import crowd
from processes import role, until

from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_schemas import MetricEvent

STREAMS = Streams("ragtide", 0)
METRICS = ("trace.adherence", "trace.context_relevance", "trace.context_utilization", "trace.supported_fraction")
START = datetime.now(UTC)


def fill(redis: Any, first: int, count: int, pipelines: int) -> None:
    """Add so many events, spread over pipelines."""
    for start in range(first, first + count, 1000):
        with redis.pipeline(transaction=False) as pipe:
            for number in range(start, min(start + 1000, first + count)):
                time_of = START + timedelta(milliseconds=number)
                event = MetricEvent(
                    interaction_id=f"i{number}",
                    pipeline=f"pipeline-{number % pipelines}",
                    occurred_at=time_of,
                    labeled_at=time_of,
                    labeler="local",
                    labeler_version="1",
                    profile="ragbench",
                    scores={
                        metric: 0.3 + 0.001 * ((number * 7919 + place) % 500) for place, metric in enumerate(METRICS)
                    },
                )
                pipe.xadd(STREAMS.metrics, {DATA_FIELD: event.encode()})
            pipe.execute()


def aggregated(redis: Any) -> bool:
    """Return whether the last event is in the checkpoint."""
    last = redis.xrevrange(STREAMS.metrics, count=1)[0][0]
    return bool(redis.hget(STREAMS.checkpoint, "position") == last)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--lease", type=float, default=10.0)
    parser.add_argument(
        "--crowd", type=int, default=0, help="interactions of a pipeline that has a user id in a segment"
    )
    parser.add_argument("--segments", type=int, default=1, help="segments of each of these")
    options = parser.parse_args()
    if options.crowd:
        with tempfile.TemporaryDirectory() as name:
            print(json.dumps(crowd(options.crowd, options.segments, Path(name)), indent=2))
        return
    # Each pipeline has its metrics and the time labeling took.
    pipelines = options.keys // (len(METRICS) + 1)
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server, connect(server.url) as redis:
        settings = {
            "RAGTIDE_REDIS_URL": server.url,
            "RAGTIDE_LEASE_S": str(options.lease),
            "RAGTIDE_EVENTS_KEEP": "1000000",
        }
        with role("aggregator", settings, Path(name) / "first.log") as first:
            fill(redis, 0, 3 * pipelines, pipelines)
            until(lambda: aggregated(redis))
            rows = sum(name.startswith(b"estimate:") for name in redis.hkeys(STREAMS.checkpoint))
            size = redis.memory_usage(STREAMS.checkpoint, samples=0)
            # The aggregator is frozen while events come, so that none is in a checkpoint; its lease does not expire.
            first.send_signal(signal.SIGSTOP)
            redis.persist(STREAMS.lease)
            fill(redis, 3 * pipelines, options.events, pipelines)
            with role("aggregator", settings, Path(name) / "second.log"):
                until(lambda: len(redis.hgetall(STREAMS.aggregators)) >= 1)
                time.sleep(2.0)  # its imports are done: a standby is warm
                redis.pexpire(STREAMS.lease, int(1000 * options.lease))
                before = redis.hget(STREAMS.checkpoint, "position")
                token = redis.get(STREAMS.lease)
                killed = time.perf_counter()
                first.kill()
                owned = until(lambda: redis.get(STREAMS.lease) not in (token, None)) - killed
                committed = until(lambda: redis.hget(STREAMS.checkpoint, "position") != before) - killed
                fresh = until(lambda: aggregated(redis)) - killed
    print(
        json.dumps(
            {
                "keys": rows,
                "checkpoint_bytes": size,
                "events_since_the_checkpoint": options.events,
                "lease_s": options.lease,
                "owned_after_s": round(owned, 2),
                "first_commit_after_s": round(committed, 2),
                "fresh_after_s": round(fresh, 2),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
