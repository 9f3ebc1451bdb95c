"""Backpressure: pauses labeling while too many metric events wait for an aggregator."""

import asyncio
from collections.abc import Callable

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.telemetry.health import Heartbeat
from ragtide_runtime.telemetry.outages import Attempt

log = structlog.get_logger("ragtide.worker")


class Backpressure:
    """The room for more metric events in the stream of a partition.

    Args:
        redis: client.
        streams: keys of the partition.
        cap: metric events in the stream at which labeling pauses.
        heartbeat: of the loop that counts them.
        attempt: logs an outage of Redis once.
    """

    def __init__(self, redis: Redis, streams: Streams, *, cap: int, heartbeat: Heartbeat, attempt: Attempt) -> None:
        self._redis = redis
        self._stream = streams.metrics
        self._partition = streams.partition
        self._cap = cap
        self._heartbeat = heartbeat
        self._attempt = attempt
        self._room = asyncio.Event()
        self._room.set()

    @property
    def paused(self) -> bool:
        """Whether labeling waits for room."""
        return not self._room.is_set()

    async def wait_for_room(self) -> None:
        """Return when there is room."""
        await self._room.wait()

    async def run(self, pause_s: float, turned: Callable[[], None]) -> None:
        """Count the metric events in the stream again and again, and call `turned` before each count."""
        self._heartbeat.beat("starting")
        while True:
            await asyncio.sleep(pause_s)
            turned()
            try:
                self._update(await self._redis.xlen(self._stream))
                self._attempt.succeeded()
                self._heartbeat.beat("labeling pauses: too many metric events wait" if self.paused else "there is room")
            except RedisError as error:
                self._heartbeat.failed(f"reading the length of the metrics stream fails: {error}")
                self._attempt.failed(error)

    def _update(self, metric_events: int) -> None:
        if metric_events < self._cap:
            if self.paused:
                log.info("labeling continues: there is room for metric events again", partition=self._partition)
            self._room.set()
        elif not self.paused:
            log.warning(
                "labeling pauses: too many metric events wait; check that an aggregator runs",
                partition=self._partition,
                metric_events=metric_events,
            )
            self._room.clear()
