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
from ragtide_runtime.redis.known_ids import KNOWN_IDS
from ragtide_runtime.redis.scripts import Run, run_together
from ragtide_schemas import DeadLetter, MetricEvent

EMIT_SCRIPT: Final = (
    KNOWN_IDS
    + """
-- KEYS: interactions, metrics, the keys of the interaction id's owner (7), those of its event (7).
-- ARGV: group, entry id, metric event, dedupe window in ms, feedback window in ms, traceparent or nothing, digest.
local owner = known_id(3, ARGV[7])
if owner and owner ~= ARGV[2] then
    return 'duplicate'
end
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then
    return 'finished_before'
end
if not owner then
    remember_id(3, ARGV[7], ARGV[2], tonumber(ARGV[4]))
end
local trace = ARGV[6] ~= '' and {'traceparent', ARGV[6]} or {}
local event = redis.call('XADD', KEYS[2], '*', 'data', ARGV[3], unpack(trace))
remember_id(10, ARGV[7], event, tonumber(ARGV[5]))
return 'emitted'
"""
)

REFUSE_SCRIPT: Final = """
-- KEYS: interactions, dead letters. ARGV: group, entry id, dead letter, 1 if the entry is still to be acknowledged.
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 and ARGV[4] == '1' then
    return 'finished_before'
end
redis.call('XADD', KEYS[2], '*', 'data', ARGV[3])
return 'refused'
"""


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
        self._emit = redis.register_script(EMIT_SCRIPT)
        self._refuse = redis.register_script(REFUSE_SCRIPT)

    async def deliver(self, results: Sequence[Scored | Refused]) -> list[Delivered]:
        """Hand results over in one round trip and return the outcome of each, in order.

        Raises:
            redis.RedisError: some or all may not have been handed over; hand all of them over again.
        """
        replies = await run_together(self._redis, [self._run(result) for result in results])
        return [Delivered(reply.decode()) for reply in replies]

    def _run(self, result: Scored | Refused) -> Run:
        streams = self._streams
        if isinstance(result, Refused):
            keys = [streams.interactions, streams.dead_letters]
            return Run(self._refuse, keys, [LABEL_GROUP, result.entry_id, result.letter.encode(), int(result.pending)])
        identity = result.event.pipeline, result.event.interaction_id
        return Run(
            self._emit,
            [streams.interactions, streams.metrics, *streams.owner_keys(*identity), *streams.event_keys(*identity)],
            [
                LABEL_GROUP,
                result.entry_id,
                result.event.encode(),
                self._window_ms,
                self._feedback_ms,
                result.traceparent,
                known_digest(*identity),
            ],
        )
