"""Aggregator at a steady rate: its processor time, the bytes that Redis receives, and the memory of both.

    python benchmarks/steady.py [--seconds 60] [--rate 500]

An aggregator with default settings reads metric events of six pipelines. Each event has one of two segment values, so
there are 60 keys: 3 metrics of each pipeline and of each segment value, and the time that labeling took. The first
part of a round publishes to a stream that no aggregator reads, which shows the bytes that publishing alone takes. In
the second part the aggregator has nothing to read. In the third part it reads the events.
"""

import argparse
import json
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
from processes import role, until

from ragtide import MetricEvent
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_schemas import utc_now

STREAMS = Streams("ragtide", 0)
NOBODY = "ragtide-benchmark:unread"
"""Stream for the part without an aggregator."""

METRICS = ("trace.adherence", "trace.context_relevance", "trace.context_utilization")
PIPELINES = 6
TICK_S = 0.05
MIB = 2**20


def event(number: int) -> MetricEvent:
    """Return a metric event; its scores follow from its number."""
    now = utc_now()
    return MetricEvent(
        interaction_id=f"interaction-{number}",
        pipeline=f"pipeline-{number % PIPELINES}",
        occurred_at=now - timedelta(seconds=1),
        labeled_at=now,
        segments={"lang": ("de", "en")[number // PIPELINES % 2]},
        labeler="local",
        labeler_version="1",
        profile="ragbench",
        scores={metric: 0.3 + 0.001 * ((number * 7919 + place) % 500) for place, metric in enumerate(METRICS)},
        latency_s=0.001 * (number % 50),
    )


def publish(redis: Any, stream: str, *, rate: float, seconds: float) -> int:
    """Publish events at a rate for some seconds, and return their number."""
    started = time.perf_counter()
    published = 0
    while (passed := time.perf_counter() - started) < seconds:
        with redis.pipeline(transaction=False) as pipe:
            while published < passed * rate:
                pipe.xadd(stream, {DATA_FIELD: event(published).encode()})
                published += 1
            pipe.execute()
        time.sleep(TICK_S)
    return published


def received(redis: Any) -> int:
    """Return the bytes that Redis has received so far."""
    return int(redis.info("stats")["total_net_input_bytes"])


def processor_s(process: psutil.Process) -> float:
    """Return the processor time of a process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def aggregated(redis: Any) -> bool:
    """Return whether the last event is in the checkpoint."""
    return bool(redis.hget(STREAMS.checkpoint, "position") == redis.xrevrange(STREAMS.metrics, count=1)[0][0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=500.0, help="metric events a second")
    options = parser.parse_args()
    seconds, rate = options.seconds, options.rate
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server, connect(server.url) as redis:
        before = received(redis)
        alone = publish(redis, NOBODY, rate=rate, seconds=min(seconds, 5.0))
        bytes_each = (received(redis) - before) / alone
        redis.delete(NOBODY)
        with role("aggregator", {"RAGTIDE_REDIS_URL": server.url}, Path(name) / "aggregator.log") as started:
            aggregator = psutil.Process(started.pid)
            redis_process = psutil.Process(redis.info("server")["process_id"])
            # The first commits load code and make the keys; they are not measured.
            publish(redis, STREAMS.metrics, rate=rate, seconds=2.0)
            until(lambda: aggregated(redis))
            time.sleep(2.0)
            idle_s = min(seconds / 3, 20.0)
            at_rest = processor_s(aggregator)
            time.sleep(idle_s)
            at_rest = processor_s(aggregator) - at_rest
            used, redis_used, before = processor_s(aggregator), processor_s(redis_process), received(redis)
            count = publish(redis, STREAMS.metrics, rate=rate, seconds=seconds)
            until(lambda: aggregated(redis))
            used, redis_used = processor_s(aggregator) - used, processor_s(redis_process) - redis_used
            bytes_received = received(redis) - before
            keys = sum(field.startswith(b"estimate:") for field in redis.hkeys(STREAMS.checkpoint))
            found = {
                "events": count,
                "events_per_s": round(count / seconds),
                "keys": keys,
                "aggregator_processor_s_per_10_s": round(10 * used / seconds, 2),
                "aggregator_idle_processor_s_per_10_s": round(10 * at_rest / idle_s, 2),
                "redis_processor_s_per_10_s": round(10 * redis_used / seconds, 2),
                "redis_input_mib_per_10_s": round(10 * bytes_received / seconds / MIB, 2),
                "of_these_by_publishing_mib": round(10 * bytes_each * count / seconds / MIB, 2),
                "estimates_stream_entries": redis.xlen(STREAMS.estimates),
                "estimates_stream_mib": round((redis.memory_usage(STREAMS.estimates) or 0) / MIB, 2),
                "aggregator_resident_mib": round(aggregator.memory_info().rss / MIB, 1),
                "redis_used_mib": round(redis.info("memory")["used_memory"] / MIB, 1),
            }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
