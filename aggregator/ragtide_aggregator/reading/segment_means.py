"""Reads the means of segment values several times a second, of a bounded number of values at the same time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..errors import TooManySegmentsError
from ..estimates.whole_means import WholeMean
from .overview import Overview

SEGMENTS_MAX: Final = 16
"""Segment values that are read at the same time: each keeps the rows of its pipelines in memory."""
UNUSED_S: Final = 60.0
"""Seconds after its last read for which the rows of a segment value are kept if others need their place."""


@dataclass(slots=True)
class _SegmentReading:
    """The rows of a segment value, and when they were read last."""

    overview: Overview
    read_at: float


class SegmentMeans:
    """The means of segment values.

    Args:
        overview_of: makes the reader of a segment value.
        clock: monotonic seconds.
    """

    def __init__(self, overview_of: Callable[[str], Overview], clock: Callable[[], float] = time.monotonic) -> None:
        self._overview_of = overview_of
        self._clock = clock
        self._known: dict[str, _SegmentReading] = {}

    async def read(self, segment: str) -> list[WholeMean]:
        """Return the means of a segment value of all live pipelines at the last commits.

        Args:
            segment: segment value such as `lang=de`.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            TooManySegmentsError: `SEGMENTS_MAX` other values were read within the last minute.
        """
        now = self._clock()
        found = self._known.get(segment)
        if found is None:
            if len(self._known) >= SEGMENTS_MAX:
                oldest = min(self._known, key=lambda one: self._known[one].read_at)
                if now - self._known[oldest].read_at < UNUSED_S:
                    raise TooManySegmentsError(SEGMENTS_MAX)
                del self._known[oldest]
            found = self._known[segment] = _SegmentReading(self._overview_of(segment), now)
        found.read_at = now
        return await found.overview.means()
