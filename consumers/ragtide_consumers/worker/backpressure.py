"""Backpressure: pauses labeling while too many metric events wait for an aggregator."""

import asyncio

import structlog

log = structlog.get_logger("ragtide.worker")


class Backpressure:
    """The room for more metric events in the stream of a partition.

    Args:
        partition: number, for the log.
        cap: metric events in the stream at which labeling pauses.
    """

    def __init__(self, partition: int, cap: int) -> None:
        self._partition = partition
        self._cap = cap
        self._room = asyncio.Event()
        self._room.set()

    @property
    def paused(self) -> bool:
        """Whether labeling waits for room."""
        return not self._room.is_set()

    async def wait_for_room(self) -> None:
        """Return when there is room."""
        await self._room.wait()

    def update(self, metric_events: int) -> None:
        """Pause or continue labeling by the length of the stream."""
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
