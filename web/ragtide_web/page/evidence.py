"""The evidence of a rule over time, as a chart. No clock, no I/O."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from math import log10

from ragtide_offline.replay.evidence_curve import EvidencePoint

from .bands import HEIGHT, WIDTH


@dataclass(frozen=True, slots=True)
class EvidenceChart:
    """Evidence over time, on a logarithmic scale, with the line at which the rule fires."""

    points: Sequence[EvidencePoint]
    start: datetime
    end: datetime

    @property
    def highest(self) -> float:
        """Decimal logarithm at the upper edge; the lower edge is 0, which is once in one value."""
        values = [value for one in self.points for value in (one.once_in, one.run_length) if value]
        return 1.1 * max((log10(max(value, 1.0)) for value in values), default=1.0) or 1.0

    def x(self, at: datetime) -> float:
        """Return the place of a time."""
        share = (at - self.start) / ((self.end - self.start) or timedelta(seconds=1))
        return round(WIDTH * min(max(share, 0.0), 1.0), 2)

    def y(self, value: float) -> float:
        """Return the place of a number of values."""
        return round(HEIGHT * (1 - log10(max(value, 1.0)) / self.highest), 2)

    def stretches(self) -> Iterator[list[EvidencePoint]]:
        """Yield the points without gaps: a rule that learns or fires has no evidence."""
        for known, points in groupby(self.points, key=lambda one: one.once_in is not None):
            if known:
                yield list(points)

    def line(self, stretch: Sequence[EvidencePoint]) -> str:
        """Return the evidence over a stretch, as points of a polyline."""
        return " ".join(f"{self.x(one.at)},{self.y(one.once_in)}" for one in stretch if one.once_in is not None)

    def limit(self, stretch: Sequence[EvidencePoint]) -> str:
        """Return the line at which the rule fires, as points of a polyline."""
        return " ".join(f"{self.x(one.at)},{self.y(one.run_length)}" for one in stretch if one.run_length is not None)
