"""How fresh a pipeline's estimates stay while each interaction of another pipeline brings new segment values."""

import threading
import time
from pathlib import Path
from typing import Any

from processes import role, until

from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_schemas import MetricEvent, utc_now

STREAMS = Streams("ragtide", 0)
SCORES = {
    "trace.adherence": 0.9,
    "trace.context_relevance": 0.6,
    "trace.context_utilization": 0.5,
    "trace.supported_fraction": 0.9,
}
PROBE_S = 0.05
"""Seconds between two events of the pipeline that is looked at."""

QUIET_S = 3.0
"""Seconds for which it is looked at before and after the crowd."""


def crowd(interactions: int, segments: int, folder: Path) -> dict[str, Any]:
    """Measure, with the default settings of an aggregator.

    Args:
        interactions: of the crowd, each with a user id of its own.
        segments: number of segments of each, all with values of their own.
        folder: for Redis and logs.
    """
    with EmbeddedRedis.open(folder) as server, connect(server.url) as redis:
        settings = {"RAGTIDE_REDIS_URL": server.url}
        with role("aggregator", settings, folder / "aggregator.log") as aggregator:
            until(lambda: redis.get(STREAMS.lease))
            over = threading.Event()
            over.set()
            before = _watch(redis, over, QUIET_S)
            used = _memory(redis, aggregator.pid)
            over.clear()
            thread = threading.Thread(target=_publish, args=(server.url, interactions, segments, over))
            thread.start()
            during = _watch(redis, over, QUIET_S)
            thread.join()
            after = _memory(redis, aggregator.pid)
            fields = redis.hkeys(STREAMS.checkpoint)
    return {
        "crowd_interactions": interactions,
        "segments_each": segments,
        "keys": sum(name.startswith(b"estimate:") for name in fields),
        "calm_probes": len(during),
        "calm_before_s": round(max(before), 2),
        "calm_during_worst_s": round(max(during), 2),
        "calm_during_median_s": round(sorted(during)[len(during) // 2], 2),
        "aggregator_mb": [round(used[0]), round(after[0])],
        "redis_mb": [round(used[1]), round(after[1])],
    }


def _event(pipeline: str, number: int, segments: dict[str, str]) -> dict[Any, Any]:
    now = utc_now()
    event = MetricEvent(
        interaction_id=f"{pipeline}-{number}",
        pipeline=pipeline,
        occurred_at=now,
        labeled_at=now,
        segments=segments,
        labeler="local",
        labeler_version="1",
        profile="ragbench",
        scores=SCORES,
    )
    return {DATA_FIELD: event.encode()}


def _publish(url: str, interactions: int, segments: int, over: threading.Event) -> None:
    """Publish the crowd at once, and wait until it is aggregated."""
    with connect(url) as redis:
        entry = b""
        for start in range(0, interactions, 500):
            with redis.pipeline(transaction=False) as pipe:
                for number in range(start, min(start + 500, interactions)):
                    values = {f"user{place or ''}": f"id-{number}" for place in range(segments)}
                    pipe.xadd(STREAMS.metrics, _event("crowd", number, values))
                entry = pipe.execute()[-1]
        until(lambda: _reached(redis) >= order(entry.decode()))
    over.set()


def _reached(redis: Any) -> tuple[int, int]:
    return order((redis.hget(STREAMS.checkpoint, "position") or b"0-0").decode())


def _watch(redis: Any, over: threading.Event, quiet_s: float) -> list[float]:
    """Return how long each event of the calm pipeline waited for its estimate, until some seconds after the crowd."""
    waiting: list[tuple[tuple[int, int], float]] = []
    waited: list[float] = []
    number, next_probe, end = 0, 0.0, None
    while end is None or time.perf_counter() < end or waiting:
        now = time.perf_counter()
        if end is None and over.is_set():
            end = now + quiet_s
        if now >= next_probe and (end is None or now < end):
            entry = redis.xadd(STREAMS.metrics, _event("calm", number, {}))
            waiting.append((order(entry.decode()), now))
            number, next_probe = number + 1, now + PROBE_S
        reached = _reached(redis)
        done = [at for entry_id, at in waiting if entry_id <= reached]
        waited += [time.perf_counter() - at for at in done]
        waiting = waiting[len(done) :]
        time.sleep(0.005)
    return waited


def _memory(redis: Any, pid: int) -> tuple[float, float]:
    """Return the megabytes of the aggregator and of Redis."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6, redis.info("memory")["used_memory"] / 1e6
