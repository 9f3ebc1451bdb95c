"""Handing results over: acknowledge and emit in one script, so that a result is emitted once or not at all.

For each entry, in this order, inside one script on the server:

1. The interaction id must be free or belong to this entry; if another entry has it, nothing is done and the worker
   refuses this one as a duplicate.
2. `XACK`. If another worker acknowledged it first (it reclaimed the entry from a slow owner), nothing more is done.
3. The id is given to this entry for the dedupe window, and the metric event is added; where it went is kept for the
   feedback window, so that gold scores that come later find it.

Sending a script again after a lost reply changes nothing: the second time `XACK` returns 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, known_digest
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_scripts
from ragtide_schemas import DeadLetter, MetricEvent

DELIVER: Final = Lua("deliver_event")
REJECT: Final = Lua("reject_entry")


class Delivered(StrEnum):
    """The outcome of handing over a result."""

    EMITTED = "emitted"
    REFUSED = "refused"
    DUPLICATE = "duplicate"
    """Not acknowledged: another entry owns the interaction id."""
    FINISHED_BEFORE = "finished_before"
    """The entry was acknowledged before, by another worker or by an earlier try of the same hand-over."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A result to emit."""

    entry_id: str
    event: MetricEvent
    traceparent: str = ""
    """Trace context that travels with the event; empty for none."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry to put aside."""

    entry_id: str
    letter: DeadLetter
    interaction_id: str | None = None
    """Of the interaction in it, if it holds one."""
    pending: bool = True
    """Whether it is still to be acknowledged."""


class Delivery:
    """Runs the two scripts for one partition."""

    def __init__(self, redis: Redis, streams: Streams, *, dedupe_window_s: float, feedback_window_s: float) -> None:
        self._redis = redis
        self._streams = streams
        self._window_ms = int(dedupe_window_s * 1000)
        self._feedback_ms = int(feedback_window_s * 1000)

    async def deliver(self, results: Sequence[Scored | Refused]) -> list[Delivered]:
        """Hand results over in one round trip and return the outcome of each, in order.

        Raises:
            redis.RedisError: some or all may not have been handed over; hand all of them over again.
        """
        return await run_scripts(self._redis, [self._call(result) for result in results])

    def _call(self, result: Scored | Refused) -> ScriptCall[Delivered]:
        if isinstance(result, Refused):
            return reject_entry(self._streams, result)
        return deliver_event(self._streams, result, dedupe_ms=self._window_ms, feedback_ms=self._feedback_ms)


def deliver_event(streams: Streams, result: Scored, *, dedupe_ms: int, feedback_ms: int) -> ScriptCall[Delivered]:
    """Return the call that acknowledges an entry and adds its metric event."""
    event = result.event
    identity = event.pipeline, event.interaction_id
    keys = (streams.interactions, streams.metrics, *streams.owner_keys(*identity), *streams.event_keys(*identity))
    digest = known_digest(*identity)
    arguments = (LABEL_GROUP, result.entry_id, event.encode(), dedupe_ms, feedback_ms, result.traceparent, digest)
    return ScriptCall(DELIVER, keys, arguments, _delivered)


def reject_entry(streams: Streams, result: Refused) -> ScriptCall[Delivered]:
    """Return the call that acknowledges an entry and adds a dead letter about it."""
    keys = (streams.interactions, streams.dead_letters)
    arguments = (LABEL_GROUP, result.entry_id, result.letter.encode(), int(result.pending))
    return ScriptCall(REJECT, keys, arguments, _delivered)


def _delivered(reply: bytes) -> Delivered:
    return Delivered(reply.decode())
