"""Appends ticks: entries of the stream of metric events that end the sessions of a pipeline whose traffic stopped.

Clusters close by event time, which stands still without traffic. So the owner of the partition appends a tick when the
last interaction of an open cluster came `quiet_ms` ago, by the clock of Redis. The owner reads the tick as any other
entry, so a restart, another owner, a recording and a replay close the same clusters at the same place.

A tick is appended only if every interaction that came before its time is finished, as in `due_sessions.lua`, and if the
owner has read both streams to their ends. So a backlog, a slow labeler and data that are replayed at speed are not
quiet. Each tick closes at least one cluster: there are never more ticks than sessions, and none without open ones.
"""

from typing import Final, Literal

import structlog
from redis import ResponseError
from redis.asyncio import Redis

from ragtide_runtime.errors import LeaseLostError
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import MetricEvent

from ..events.batch import Scope
from ..state.state import AggregatorState
from .applying import Positions

APPEND: Final = Lua("append_ticks")

AT_ONCE: Final = 1_000
"""Most ticks of one call."""

TickedScopes = dict[Scope, int]
"""By pipeline and run the longest quiet cluster for which a tick was appended, as `QuietScope.touched`.

A tick that cannot be applied becomes a dead letter. Without this there would be another one every second.
"""

log = structlog.get_logger("ragtide.aggregator")


class TickWriter:
    """Appends the ticks of one partition.

    Args:
        redis: client.
        streams: keys of the partition.
        token: fencing token of the lease.
        ticked: scopes for which ticks were appended; it outlives a session that failed at an entry.
    """

    def __init__(self, redis: Redis, streams: Streams, token: str, ticked: TickedScopes) -> None:
        self._redis, self._streams, self._token, self._ticked = redis, streams, token, ticked
        self._log_limit = LogLimit()

    async def append(self, state: AggregatorState, positions: Positions, until_ms: int) -> None:
        """Append the ticks that are due.

        Args:
            state: with everything up to the positions.
            positions: the last entries that were read.
            until_ms: every interaction that came before this time is finished.

        Raises:
            LeaseLostError: another aggregator owns the partition.
            redis.RedisError: Redis failed; ticks that were appended are read with the next entries.
        """
        due = [quiet for quiet in state.quiet_scopes(until_ms) if self._ticked.get(quiet.scope) != quiet.touched]
        if not due:
            return
        ticks = [state.tick_of(quiet, until_ms) for quiet in due[:AT_ONCE]]
        try:
            outcome = await run_script(self._redis, append_ticks(self._streams, self._token, positions, ticks))
        except ResponseError as error:  # such as a full Redis, which still answers: the ticks stay due
            self._log_limit.warning(
                log, "ticks", "sessions without traffic wait: their tick cannot be written", error=str(error)
            )
            return
        if outcome == "fenced":
            raise LeaseLostError(
                f"partition {self._streams.partition} has another owner now: this aggregator stands by"
            )
        if outcome == "appended":
            self._ticked.update((quiet.scope, quiet.touched) for quiet in due[:AT_ONCE])


def append_ticks(
    streams: Streams, token: str, positions: Positions, ticks: list[MetricEvent]
) -> ScriptCall[Literal["appended", "fenced", "behind"]]:
    """Return the call that appends ticks; its reply says why if nothing was written.

    Args:
        streams: keys of the partition.
        token: fencing token of the lease.
        positions: the last entries that the owner has read; with a later one nothing is appended.
        ticks: to append.
    """
    keys = (streams.lease, streams.metrics, streams.feedback, streams.sentinels)
    return ScriptCall(APPEND, keys, (token, *positions, *(tick.encode() for tick in ticks)), _outcome)


def _outcome(reply: bytes) -> Literal["appended", "fenced", "behind"]:
    text = reply.decode()
    return "appended" if text == "appended" else "fenced" if text == "fenced" else "behind"
