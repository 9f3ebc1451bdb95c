"""Trims the streams of a partition: removes entries that every reader has finished, and bounds the others by caps.

Interactions are trimmed when a worker has finished them and every other consumer group has passed them. Every
interaction stays until there are workers. An interaction that left the group of the workers unfinished, because another
client changed the group, is delivered again. Metric events are trimmed up to the position of every consumer group and
of the checkpoint. They stay longer, because later
feedback is joined with them. Alerts above their cap stay until every group has finished them (the recorder's, and each
subscriber's), up to ten times the cap. Interactions and dead letters also have caps in bytes. Unfinished entries that a
cap removes are counted in the hash `dropped`.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams
from ragtide_runtime.redis.scripts import Lua, ScriptCall
from ragtide_runtime.settings.model import Settings

DEAD_LETTERS_CAP: Final = 100_000
"""Most dead letters of a partition: nobody reads more, and `dead_letters_bytes` bounds large ones."""
ALERTS_HARD: Final = 10
"""Factor of their cap up to which alerts that wait for a consumer group stay."""

SAMPLES: Final = 2000
"""Nodes of a stream that are measured every second, in less than a millisecond of Redis's time.

`MEMORY USAGE` measures the bytes: exactly for a stream of up to so many nodes (a node holds one entry or a few small
ones), and from its oldest nodes for a longer stream.
"""

TRIM: Final = Lua("trim_streams")


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """The status of the streams of a partition after trimming."""

    now_ms: int
    """Time of the Redis server."""
    oldest_waiting_ms: int | None
    """Time at which the oldest unfinished interaction was added; None if there is none. If its id lies in the future,
    because the clock of Redis went back, the time at which it was first found to be the oldest."""
    last_scored_ms: int | None
    """Time at which the last metric event of traffic was added, not of a sentinel; None before the first."""
    dropped: dict[str, int]
    """Numbers of entries that were dropped so far, by reason."""
    changes: dict[str, int] = field(default_factory=dict)
    """Changes of other clients to the stream of interactions since the last trimming, by `DeliveriesField`."""
    oldest_awaiting_ms: int | None = None
    """Time at which the oldest interaction was added that waits for the labeler of a cascade's sample; None if there
    is none. `oldest_waiting_ms` is about the others."""
    scored_until_ms: int = 0
    """Time before which every interaction that came is finished, as sessions are ended by it; also those that wait for
    the labeler of a sample, if they may be turns."""

    def lag_s(self, position: str) -> float:
        """Return the age in seconds of the metric event at a position, or 0 if no later event waits."""
        read_ms = order(position)[0]
        return max(self.now_ms - read_ms, 0) / 1000 if (self.last_scored_ms or 0) > read_ms else 0.0


def trim_streams(
    streams: Streams, settings: Settings, position: str, feedback_position: str
) -> ScriptCall[StreamStatus]:
    """Return the call that trims the streams of a partition, given the positions of its checkpoint.

    A failure of Redis may leave some streams untrimmed; the next call trims them.
    """
    keys = (
        streams.interactions,
        streams.metrics,
        streams.feedback,
        streams.alerts,
        streams.dead_letters,
        streams.dropped,
        streams.finished,
        streams.deliveries,
        streams.rejected,
        streams.sentinels,
    )
    arguments = (
        position,
        feedback_position,
        settings.events_keep,
        settings.interactions_cap,
        settings.alert_cap,
        DEAD_LETTERS_CAP,
        ALERTS_HARD * settings.alert_cap,
        LABEL_GROUP,
        settings.interactions_bytes,
        settings.dead_letters_bytes,
        SAMPLES,
    )
    return ScriptCall(TRIM, keys, arguments, _status)


def _status(reply: list[Any]) -> StreamStatus:
    now_ms, oldest, last, dropped, changes, awaiting, scored_until = reply
    oldest_ms = int(oldest) if oldest else None
    return StreamStatus(
        int(now_ms), oldest_ms, _milliseconds(last), _counts(dropped), _counts(changes), _milliseconds(awaiting),
        int(scored_until),
    )  # fmt: skip


def _counts(flat: list[Any]) -> dict[str, int]:
    return {name.decode(): int(count) for name, count in zip(flat[::2], flat[1::2], strict=True)}


def _milliseconds(entry_id: bytes) -> int | None:
    return int(entry_id.partition(b"-")[0]) or None if entry_id else None
