"""The race runner: follows an experiment, and writes the next decisions to its log."""

import asyncio
from collections.abc import Callable

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import Backoff, sleep_or_stop
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.log import append_if_last
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_schemas.experiments import Command, Completed, LogEntry, Paused

from .decisions import driver_decision, race_decision
from .executor import Executor
from .reader import ExperimentReader

POLL_MS = 500
"""Milliseconds for which one read waits."""

log = structlog.get_logger("ragtide.experiment")


class RaceRunner:
    """Runs the race of one experiment.

    Several runners decide the same. A decision is written only if it follows the last entry that the runner has read.
    Otherwise the runner reads on and decides again.

    Args:
        redis: client.
        streams: keys of the experiment.
        executor: makes the calls. With an executor, the runner also writes the decisions of a driver, and ends when the
            experiment is paused and all answers are labeled.
        check: called often; raises an error once this process may no longer drive the experiment.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        executor: Executor | None = None,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._executor = executor
        self._check = check
        self.reader = ExperimentReader(redis, streams)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until the experiment is complete or `stop` is set.

        Raises:
            ConfigurationError: there is no experiment.
            ExperimentError: the executor cannot continue.
        """
        outage = redis_outage(self._redis).attempt("following the experiment")
        backoff = Backoff()
        while not stop.is_set():
            self._check()
            try:
                await self.reader.read(wait_ms=POLL_MS)
                while entries := self._decision():
                    await self._write(entries)
                    await self.reader.read()
            except RedisError as error:
                outage.failed(error)
                await sleep_or_stop(stop, backoff.pause_s())
                continue
            outage.succeeded()
            backoff.succeeded()
            if self._is_over():
                return
            if self._executor is not None:
                self._executor.begin_calls(self.reader.state)

    def _decision(self) -> list[LogEntry]:
        state = self.reader.state
        return race_decision(state) or ([] if self._executor is None else driver_decision(state))

    def _is_over(self) -> bool:
        state = self.reader.state
        if state.completed or self._executor is None or state.paused is None:
            return state.completed
        return not self._executor.calling and all(result.outcome != "waiting" for result in state.results.executed())

    async def _write(self, entries: list[LogEntry]) -> None:
        encoded = [entry.encode() for entry in entries]
        if not await append_if_last(self._redis, self._streams.experiment, self.reader.last_entry, encoded):
            return
        for entry in entries:
            if isinstance(entry, Command):
                log.info("config stopped", config=entry.config, by=entry.by, reason=entry.reason)
            elif isinstance(entry, Paused):
                log.warning("experiment paused", reason=entry.reason)
            elif isinstance(entry, Completed):
                log.info("experiment complete")
