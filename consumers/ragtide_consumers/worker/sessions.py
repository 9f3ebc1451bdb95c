"""The sessions of a partition, for the criteria that are asked about whole conversations.

A turn is stored with the commit of its result, if a criterion may be asked about its session. A session that has ended
becomes an interaction of its own on the same stream. So it is labeled, retried, and counted exactly once as any other.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, workspace_of
from ragtide_runtime.redis.session_turns import (
    AT_ONCE,
    EndedSessions,
    encoded_turn,
    end_due_sessions,
    session_key,
)
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import Heartbeat
from ragtide_runtime.telemetry.outages import Attempt
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion

from ..labelers.asked_criteria import asked_about, may_be_asked_of_session
from .results import SessionTurn

log = structlog.get_logger("ragtide.sessions")


class WorkerSessions:
    """Stores the turns of sessions, and ends the sessions of one partition. Several workers may do so at once.

    In a workspace it does nothing: a replay publishes the sessions of its recording itself. Nor is a pipeline followed
    that is split over partitions, because a partition has some of the turns only.

    Args:
        streams: keys of the partition.
        criteria: returns those that the judges ask at present.
        attempt: logs an outage of Redis once.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        settings: Settings,
        *,
        criteria: Callable[[], Sequence[Criterion]],
        heartbeat: Heartbeat,
        attempt: Attempt,
    ) -> None:
        self._streams = streams
        self._criteria = criteria
        self._heartbeat = heartbeat
        self._attempt = attempt
        self._split = frozenset(settings.splits)
        self._is_live = workspace_of(settings.prefix) is None
        self._end = partial(
            end_due_sessions,
            redis,
            streams,
            quiet_s=settings.clusters.quiet_s,
            most_open=settings.clusters.open_cap,
            dedupe_ms=int(settings.dedupe_window_s * 1000),
            is_asked=lambda session: bool(asked_about(criteria(), session)),
        )

    def turn(self, interaction: RagInteraction) -> SessionTurn | None:
        """Return an interaction as a turn of its session; None if no criterion may be asked about the session."""
        if interaction.session_id is None or interaction.is_session or not self._is_live:
            return None
        if interaction.pipeline in self._split or not may_be_asked_of_session(self._criteria(), interaction):
            return None
        return SessionTurn(session_key(self._streams, interaction), encoded_turn(interaction))

    async def run(self, pause_s: float) -> None:
        """End sessions until cancelled; also after the last criterion was removed, so that no turn stays."""
        while True:
            ended = EndedSessions()
            try:
                if self._is_live:
                    ended = await self._end()
            except RedisError as error:
                self._heartbeat.failed(f"ending sessions fails: {error}")
                self._attempt.failed(error)
            else:
                self._attempt.succeeded()
                self._heartbeat.beat("ending sessions")
            if ended.due:
                log.debug("sessions ended", sessions=ended.due, asked=ended.asked, partition=self._streams.partition)
            if ended.expired:
                log.warning(
                    "turns of sessions were deleted before a worker ended their sessions: nothing is asked about them",
                    sessions=ended.expired,
                    partition=self._streams.partition,
                )
            if ended.due < AT_ONCE:
                await asyncio.sleep(pause_s)
