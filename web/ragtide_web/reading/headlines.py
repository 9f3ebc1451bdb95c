"""The headlines on the screens: read for all viewers together, and less often the longer a read takes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ragtide_aggregator.estimates.headline import MetricStanding
from ragtide_aggregator.estimates.ranges import RANGES
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.statistics.tables import scipy_functions

KEPT_S: Final = 10.0
"""Most seconds for which headlines are used again without a new reading."""

QUICK_S: Final = 0.1
"""Seconds of processor time of a reading after which the next one may follow at once."""

KEPT_READS: Final = 4.0
"""How many times as long as their reading worked beyond `QUICK_S` headlines are used again, so that slow readings take
a fifth of a processor at most. A reading that only waits, on a busy machine, is not slow: it is late already."""

WAIT_S: Final = 0.5
"""Seconds for which a viewer waits for a new reading while there is one that is younger than `OLD_S`."""

OLD_S: Final = 60.0
"""Seconds after which headlines are no longer shown while they are read anew."""

CHOICES: Final = (*RANGES, "all")
"""Names of ranges with a button, beside the default range."""

READINGS_MAX: Final = 32
"""Ranges and segment values whose headlines are kept."""


@dataclass(slots=True)
class _Reading:
    until: float = float("-inf")
    """When the headlines are read anew."""
    ended: float = float("-inf")
    standings: list[MetricStanding] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None
    """Reads the headlines anew."""
    waiting: int = 0
    """Requests that wait for the task."""


class ShownHeadlines:
    """The headlines of whole pipelines, or of one segment value, in ranges with a name.

    Requests share a reading. While a reading takes long, they get the headlines of the one before. If every request
    that waits for a reading is cancelled, so is the reading.

    Args:
        deployment: read model.
        clock: monotonic seconds.
        work: seconds of processor time of this process.
    """

    def __init__(
        self,
        deployment: Deployment,
        clock: Callable[[], float] = time.monotonic,
        work: Callable[[], float] = time.process_time,
    ) -> None:
        self._deployment = deployment
        self._clock = clock
        self._work = work
        self._readings: dict[tuple[str, str | None], _Reading] = {}
        self._importing: asyncio.Task[None] | None = None

    async def read(self, name: str, segment: str | None = None) -> list[MetricStanding]:
        """Return how metrics stand: as of now where reading is fast, and otherwise none that are older than a minute.

        Args:
            name: of the range: one of `CHOICES`, or empty for the default range.
            segment: segment value; None for whole pipelines.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            DamagedFieldError: a pane of the history cannot be read.
            TooManySegmentsError: too many other segment values were read within the last minute.
        """
        now = self._clock()
        if len(self._readings) > READINGS_MAX:
            self._readings = {key: reading for key, reading in self._readings.items() if reading.until > now}
        reading = self._readings.setdefault((name, segment), _Reading())
        if now < reading.until:
            return reading.standings
        task = reading.task
        if task is None:
            task = reading.task = asyncio.create_task(self._read_anew(reading, name, segment))
            # A caller that waits for the task gets its error; without one asyncio must not report it.
            task.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
        reading.waiting += 1
        try:
            await asyncio.wait((task,), timeout=WAIT_S if now - reading.ended < OLD_S else None)
        except asyncio.CancelledError:
            if reading.waiting == 1:  # nothing else waits for it
                task.cancel()
            raise
        finally:
            reading.waiting -= 1
        if task.done():
            task.result()
        return reading.standings

    async def _read_anew(self, reading: _Reading, name: str, segment: str | None) -> None:
        began, worked = self._clock(), self._work()
        if self._importing is None:  # while the first reading waits for Redis
            self._importing = asyncio.create_task(asyncio.to_thread(scipy_functions.preload))
        try:
            reading.standings = await self._deployment.standings(name or "default", segment=segment)
        finally:
            reading.task = None
        reading.ended = ended = self._clock()
        # Other requests work at the same time.
        took_s = min(ended - began, self._work() - worked)
        reading.until = ended + min(KEPT_READS * max(took_s - QUICK_S, 0.0), KEPT_S)
