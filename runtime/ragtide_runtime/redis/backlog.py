"""Reads the backlog of a partition: entries that wait for workers and the aggregator, their age, and stream lengths."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis

from .keys import LABEL_GROUP, RECORD_GROUP, Streams
from .scripts import Lua, ScriptCall, run_scripts

COUNT_CAP: Final = 1000
"""Most entries that the script counts itself, where Redis does not know their number."""

SEEN_MS: Final = 60_000
"""A worker counts as present for this many milliseconds after its last read."""

READ: Final = Lua("read_backlog")

LENGTHS: Final = ("interactions", "metrics", "feedback", "estimates", "alerts", "dead_letters")
"""Streams of a partition, in the order of the script's keys."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The backlog of one partition; all fields are read at the same moment."""

    lengths: dict[str, int]
    """Entries in each stream."""
    waiting: int
    """Interactions that no worker has finished. Those not yet taken are counted to at most `COUNT_CAP` where Redis does
    not know their number: before 7.0, and after entries were deleted."""
    pending: int
    """Those of the waiting interactions that a worker has taken."""
    awaiting: int
    """Those of the waiting interactions that wait for the labeler of a cascade's sample, which is unavailable."""
    oldest_s: float
    """Age in seconds of the oldest of the other waiting interactions, by Redis's clock; 0 if there is none."""
    events_waiting: int
    """Metric events that are in no checkpoint yet, counted to at most `COUNT_CAP`."""
    events_oldest_s: float
    """Age in seconds of the oldest of these metric events; 0 if there is none."""
    workers: int
    """Workers that have read within the last minute."""
    seen_s: float | None
    """Seconds since the last read of any of them; None without one."""
    unrecorded_s: float | None
    """Age in seconds of the oldest entry that waits to be recorded, over all streams; 0 if there is none, None if no
    recorder has ever run."""
    owned: bool
    """Whether an aggregator holds the lease."""
    dropped: dict[str, int]
    """Number of dropped interactions by reason."""
    ahead_s: float
    """Seconds by which the last id of a stream is ahead of Redis's clock, which has gone back; 0 if none is."""
    deliveries: dict[str, str]
    """What other clients did to the stream of interactions and its group, by `DeliveriesField`."""


async def read_backlogs(redis: Redis, partitions: Sequence[Streams]) -> list[Backlog]:
    """Return the backlogs of partitions, all in one round trip.

    Raises:
        redis.RedisError: Redis failed.
    """
    return await run_scripts(redis, [read_backlog(streams) for streams in partitions])


def read_backlog(streams: Streams) -> ScriptCall[Backlog]:
    """Return the call that reads the backlog of one partition."""
    keys = (
        streams.interactions,
        streams.metrics,
        streams.feedback,
        streams.estimates,
        streams.alerts,
        streams.dead_letters,
        streams.checkpoint,
        streams.dropped,
        streams.lease,
        streams.deliveries,
    )
    return ScriptCall(READ, keys, (LABEL_GROUP, COUNT_CAP, SEEN_MS, RECORD_GROUP), _backlog)


def _backlog(reply: bytes) -> Backlog:
    fields = json.loads(reply)
    return Backlog(
        lengths=dict(zip(LENGTHS, fields["lengths"], strict=True)),
        waiting=int(fields["waiting"]),
        pending=int(fields["pending"]),
        awaiting=int(fields["awaiting"]),
        oldest_s=fields["oldest_ms"] / 1000,
        events_waiting=int(fields["events_waiting"]),
        seen_s=None if fields["seen_ms"] < 0 else fields["seen_ms"] / 1000,
        events_oldest_s=fields["events_oldest_ms"] / 1000,
        workers=int(fields["workers"]),
        unrecorded_s=fields["unrecorded_ms"] / 1000 if fields["unrecorded_ms"] >= 0 else None,
        owned=bool(fields["owned"]),
        dropped={why: int(count) for why, count in fields["dropped"].items()},
        ahead_s=fields["ahead_ms"] / 1000,
        deliveries=dict(fields["deliveries"]),
    )
