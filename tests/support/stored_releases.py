"""Releases in a checkpoint, filled directly."""

import json
from datetime import datetime, timedelta
from random import Random
from typing import Any

from ragtide_aggregator.alerts.watched_release import ReleaseOptions, WatchedRelease
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import to_milliseconds, utc_now

ADHERENCE = EstimateKey("", None, None, "trace.adherence", "ragbench", "judge", "1")
LATENCY = EstimateKey("", None, None, "answer.latency_s", "ragbench", "local", "1")


def watched_release(
    from_version: str = "v1",
    to_version: str = "v2",
    *,
    fall: float = 0.0,
    n: int = 400,
    pipeline: str = "shop",
    opened_at: datetime | None = None,
) -> WatchedRelease:
    """Return a release of n answers of each version; the new one is worse by `fall`."""
    time_ms = to_milliseconds(opened_at or utc_now() - timedelta(minutes=20))
    release, random = WatchedRelease(pipeline, from_version, to_version, time_ms, ReleaseOptions()), Random(1)
    for number in range(2 * n):
        second, time_ms = number % 2 == 1, time_ms + 1
        value = float(random.random() < 0.9 - fall * second)
        release.count(second=second, time_ms=time_ms)
        release.take(second=second, stratum=0, values=[(ADHERENCE, value)], time_ms=time_ms)
        release.decide(time_ms)
    return release


async def store(redis: Any, *releases: WatchedRelease, partition: int = 0) -> None:
    """Store releases in the checkpoint of a partition."""
    for release in releases:
        names = [release.pipeline, release.from_version, release.to_version, release.opened_ms]
        field = CheckpointField.RELEASE + json.dumps(names, ensure_ascii=False, separators=(",", ":"))
        await redis.hset(Streams("ragtide", partition).checkpoint, field, release.to_bytes())
