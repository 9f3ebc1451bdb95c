"""Appends ticks: entries of the stream of metric events that end the sessions of a pipeline whose traffic stopped.

Clusters close by event time, which stands still without traffic. So the owner of the partition appends a tick when the
last interaction of an open cluster came `quiet_ms` ago, by the clock of Redis. The owner reads the tick as any other
entry, so a restart, another owner, a recording and a replay close the same clusters at the same place.

A tick is appended only if every interaction that came before its time is finished, as in `due_sessions.lua`, and if the
owner has read both streams to their ends. So a backlog, a slow labeler and data that are replayed at speed are not
quiet. Each tick closes at least one cluster: there are never more ticks than sessions, and none without open ones.
"""

from typing import Final, NamedTuple

import structlog
from redis import ResponseError
from redis.asyncio import Redis

from ragtide_runtime.errors import LeaseLostError
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.log import read_range
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import MetricEvent

from ..events.batch import Scope
from ..state.open_clusters import QuietScope
from ..state.state import AggregatorState
from .applying import Positions

APPEND: Final = Lua("append_ticks")

AT_ONCE: Final = 1_000
"""Most ticks of one call."""


class AppendedTick(NamedTuple):
    """A tick of a pipeline and run."""

    touched: int
    """Its cluster that was quiet for longest, as `QuietScope.touched`."""
    entry_id: str
    """The last tick of the same call."""


TickedScopes = dict[Scope, AppendedTick]
"""By pipeline and run the last tick.

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
            positions: the last entries that were read.
            until_ms: every interaction that came before this time is finished.

        Raises:
            LeaseLostError: another aggregator owns the partition.
            redis.RedisError: Redis failed; ticks that were appended are read with the next entries.
        """
        due = [quiet for quiet in state.quiet_scopes(until_ms) if not await self._is_refused(quiet)]
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
        if outcome != "behind":
            self._ticked.update((quiet.scope, AppendedTick(quiet.touched, outcome)) for quiet in due[:AT_ONCE])

    async def _is_refused(self, quiet: QuietScope) -> bool:
        known = self._ticked.get(quiet.scope)
        if known is None or known.touched != quiet.touched:
            return False
        # A failover of Redis may have lost a tick before it was read: then it is due again.
        at = known.entry_id
        return bool(await read_range(self._redis, self._streams.metrics, first=at, last=at, count=1))


def append_ticks(streams: Streams, token: str, positions: Positions, ticks: list[MetricEvent]) -> ScriptCall[str]:
    """Return the call that appends ticks; its reply is the id of the last one, or `fenced` or `behind` without any.

    Args:
        streams: keys of the partition.
        token: fencing token of the lease.
        positions: the last entries that the owner has read; with a later one nothing is appended.
    """
    keys = (streams.lease, streams.metrics, streams.feedback, streams.sentinels)
    return ScriptCall(APPEND, keys, (token, *positions, *(tick.encode() for tick in ticks)), bytes.decode)
