"""The racer: reads what is scored, looks every few items, and writes its decisions to the log as orders."""

import asyncio

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.log import append_if_last
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_runtime.waiting import Backoff, sleep_or_stop
from ragtide_schemas.experiments import Completed, Entry, Order

from .reader import ExperimentReader

POLL_MS = 500
"""Milliseconds one read waits."""

log = structlog.get_logger("ragtide.experiment")


class Racer:
    """Judges one experiment until it is complete or told to stop.

    Several may run: what one decides is written only if the log is as it was read, and all would decide the same.
    """

    def __init__(self, redis: Redis, streams: Streams) -> None:
        self._redis = redis
        self._streams = streams
        self.reader = ExperimentReader(redis, streams, races=True)

    async def run(self, stop: asyncio.Event) -> None:
        """Judge until the experiment is complete or told to stop.

        Raises:
            ConfigurationError: there is no experiment.
        """
        outage = redis_outage(self._redis).attempt("judging the experiment")
        backoff = Backoff()
        while not stop.is_set():
            try:
                await self.reader.read(wait_ms=POLL_MS)
                if self.reader.progress.completed:
                    return
                await self._judge()
                outage.succeeded()
                backoff.succeeded()
            except RedisError as error:
                outage.failed(error)
                await sleep_or_stop(stop, backoff.pause_s())

    async def _judge(self) -> None:
        while True:
            judging = self.reader.judging
            assert judging is not None  # noqa: S101 - for the type checker: it races
            if judging.stale:
                # Another process wrote to the log in between, for example an order: read the log again from its start.
                self.reader = ExperimentReader(self._redis, self._streams, races=True)
            elif entries := judging.next_entries():
                await self._write(entries)
            else:
                return
            await self.reader.read()

    async def _write(self, entries: list[Entry]) -> bool:
        encoded = [entry.encode() for entry in entries]
        written = await append_if_last(self._redis, self._streams.experiment, self.reader.last_entry, encoded)
        if written:
            for entry in entries:
                if isinstance(entry, Order):
                    log.info("config stopped", config=entry.config, reason=entry.reason)
                elif isinstance(entry, Completed):
                    log.info("experiment complete")
        return written
