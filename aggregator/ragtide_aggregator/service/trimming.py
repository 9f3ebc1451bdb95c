"""Keeping a partition's streams small: what every reader is done with goes, and hard caps bound the rest.

Of interactions and metric events goes what is behind every consumer group (and behind the checkpoint); an entry that a
worker still holds stays, and so does every interaction until there are workers. Metric events stay a while longer,
because feedback that comes later is joined with them. Alerts above their cap stay until they are recorded, up to ten
times the cap. Interactions and dead letters have caps in bytes, too. What a hard cap takes that nobody had finished is
counted in the hash `dropped`.
"""

from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import LABEL_GROUP, RECORD_GROUP, Streams
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script

ALERTS_HARD: Final = 10
"""How many times their cap alerts may be that wait to be recorded."""

SAMPLES: Final = 2000
"""Nodes of a stream whose size is looked at every second: less than a millisecond of Redis's time."""

TRIM: Final = Lua("trim_streams")


@dataclass(frozen=True, slots=True)
class Caps:
    """How many entries, and how many bytes, streams may hold.

    Bytes are those that `MEMORY USAGE` tells: exact for a stream of up to `SAMPLES` nodes (of an entry or a few small
    ones), and beyond that taken from the size of its oldest `SAMPLES` nodes, which are the next to go.
    """

    metrics_keep: int = 100_000
    """Metric events kept behind the checkpoint."""
    interactions: int = 1_000_000
    alerts: int = 10_000
    dead_letters: int = 100_000
    interactions_bytes: int = 17_179_869_184
    dead_letters_bytes: int = 1_073_741_824


@dataclass(frozen=True, slots=True)
class Seen:
    """The findings of one look at a partition."""

    now_ms: int
    """Time of the Redis server."""
    oldest_waiting_ms: int | None
    """When the oldest interaction that no worker has finished was added; None if there is none."""
    last_scored_ms: int | None
    """When the last metric event was added; None before the first."""
    dropped: dict[str, int]
    """Entries that were dropped so far, by why."""


class House:
    """Keeps the streams of one partition."""

    def __init__(self, redis: Redis, streams: Streams, caps: Caps) -> None:
        self._streams = streams
        self._caps = caps
        self._redis = redis

    async def keep(self, position: str, feedback_position: str) -> Seen:
        """Trim what everybody is done with, given the positions of the checkpoint, and return what was found.

        Raises:
            redis.RedisError: some or nothing may have been trimmed; doing it again later is enough.
        """
        return await run_script(self._redis, trim_streams(self._streams, self._caps, position, feedback_position))


def trim_streams(streams: Streams, caps: Caps, position: str, feedback_position: str) -> ScriptCall[Seen]:
    """Return the call that trims the streams of a partition, given the positions of its checkpoint."""
    keys = (
        streams.interactions,
        streams.metrics,
        streams.feedback,
        streams.alerts,
        streams.dead_letters,
        streams.dropped,
    )
    arguments = (
        position,
        feedback_position,
        caps.metrics_keep,
        caps.interactions,
        caps.alerts,
        caps.dead_letters,
        ALERTS_HARD * caps.alerts,
        LABEL_GROUP,
        RECORD_GROUP,
        caps.interactions_bytes,
        caps.dead_letters_bytes,
        SAMPLES,
    )
    return ScriptCall(TRIM, keys, arguments, _seen)


def _seen(reply: list[Any]) -> Seen:
    now_ms, oldest, last, dropped = reply
    names = [name.decode() for name in dropped[::2]]
    counts = [int(count) for count in dropped[1::2]]
    return Seen(int(now_ms), _milliseconds(oldest), _milliseconds(last), dict(zip(names, counts, strict=True)))


def _milliseconds(entry_id: bytes) -> int | None:
    return int(entry_id.partition(b"-")[0]) or None if entry_id else None
