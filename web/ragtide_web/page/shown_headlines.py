"""The headlines on the screens: read for all viewers together, and less often the longer a read takes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ragtide_aggregator.estimates.headline import RANGES
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_schemas import Headline

KEPT_S: Final = 1.0
"""Most seconds for which headlines are used again."""

KEPT_READS: Final = 4.0
"""How many times as long as their reading took headlines are used again: reading takes a fifth of the time at most."""

CHOICES: Final = (*RANGES, "all")
"""Names of ranges with a button, beside the default range."""

READINGS_MAX: Final = 32
"""Ranges and segment values whose headlines are kept."""


@dataclass(slots=True)
class _Reading:
    until: float = float("-inf")
    headlines: list[Headline] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ShownHeadlines:
    """The headlines of whole pipelines, or of one segment value, in ranges with a name.

    Args:
        deployment: read model.
        clock: monotonic seconds.
    """

    def __init__(self, deployment: Deployment, clock: Callable[[], float] = time.monotonic) -> None:
        self._deployment = deployment
        self._clock = clock
        self._readings: dict[tuple[str, str | None], _Reading] = {}

    async def read(self, name: str, segment: str | None = None) -> list[Headline]:
        """Return headlines that are at most `KEPT_S` old, and newer where reading is fast.

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
        async with reading.lock:
            if (began := self._clock()) >= reading.until:
                reading.headlines = await self._deployment.headlines(name or "default", segment=segment)
                ended = self._clock()
                reading.until = ended + min(KEPT_READS * (ended - began), KEPT_S)
            return reading.headlines
