"""Findings of `ragtide doctor` on the number of keys of a partition, and on pipelines above their limit."""

import json
from typing import Any, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.settings.model import Settings

SHOWN = 5
"""Pipelines that are named."""


async def keys_of(redis: Redis, streams: Streams, settings: Settings) -> tuple[str, str] | None:
    """Return how many keys a partition has and, if some are shared, the advice; None before the first commit."""
    stored = cast("bytes | None", await redis.hget(streams.checkpoint, CheckpointField.KEYS_SUMMARY))
    if stored is None:
        return None
    summary: dict[str, Any] = json.loads(stored)
    found = f"{summary['keys']:,} of {settings.partition_keys_cap:,}"
    if not summary["pipelines"]:
        return found, ""
    largest = list(summary["largest"].items())[:SHOWN]
    named = ", ".join(f"{pipeline} {total:,}" for pipeline, total in largest)
    more = summary["pipelines"] - len(largest)
    found += (
        f"; {summary['total']:,} segment values, runs or pipelines counted in `other` so far: {named}"
        f"{f' and {more:,} more pipelines' if more > 0 else ''}"
    )
    return found, "give segments few values and no ids, or raise keys_cap (one pipeline) or partition_keys_cap"
