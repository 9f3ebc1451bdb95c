"""Means over time with their intervals, as a chart: positions, lines and marks. No clock, no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from ragtide_aggregator.estimates.over_time import History, HistoryPoint

HEIGHT: Final = 100.0
"""Height of the drawing that the server makes; the browser stretches it."""
WIDTH: Final = 400.0
"""Width of this drawing."""
LEAST_N: Final = 30
"""Values of a point of a chart, as far as there are so many: fewer make a band that says little."""
TALLEST: Final = 4.0
"""How many times as high as the highest mean of a number, such as seconds, its interval is drawn."""


def chart_start(history: History | None, start: datetime) -> datetime:
    """Return where a chart begins: at the first value of a history that is younger than the range."""
    if history is None or not history.young or not history.points:
        return start
    return max(start, history.points[0].start)


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that is shown in a chart, such as an alert."""

    at: datetime
    kind: str
    """`began`, `fired`, `resolved` or `deploy`; of a release `opened`, `ended`, or its verdict."""
    text: str
    """What else is said about it, such as a rule; may be empty."""


@dataclass(frozen=True, slots=True)
class Level:
    """A value that holds for a while, such as the level before a change."""

    start: datetime
    end: datetime
    value: float
    kind: str
    """`before` or `since`."""


@dataclass(frozen=True, slots=True)
class BandChart:
    """A mean over time with its interval."""

    points: Sequence[HistoryPoint]
    start: datetime
    end: datetime
    lowest: float
    """Lower end of the metric's range."""
    highest: float
    target: float | None = None
    baseline: float | None = None
    marks: Sequence[Mark] = field(default_factory=tuple)
    levels: Sequence[Level] = field(default_factory=tuple)
    changed_at: datetime | None = None
    """When the change of an alert that fires began: the line has the colour of alarm from there on."""
    beside: Sequence[HistoryPoint] = ()
    """Another mean over the same time, such as that of the version before."""
    within: tuple[float, float] | None = None
    """The values at the lower and the upper edge, if they do not follow from the points."""

    @property
    def cut(self) -> bool:
        """Whether the shown values are only a part of the metric's range."""
        bounded = any(point.lower is not None for point in self.points)
        return bounded and self.limits != (self.lowest, self.highest)

    @property
    def limits(self) -> tuple[float, float]:
        """The values at the lower and the upper edge: the shown ones with a margin, within the metric's range.

        An interval of a number such as seconds may end far above it: the line would be pressed flat, so it is cut.
        """
        if self.within is not None:
            return self.within
        values = [point.estimate for point in self.points]
        values += [value for value in (self.target, self.baseline) if value is not None]
        values += [level.value for level in self.levels]
        if not values:
            return self.lowest, self.highest
        ends = [end for point in self.points for end in (point.lower, point.upper) if end is not None]
        most = TALLEST * max(values) if self.lowest == 0 and self.highest > 1 else self.highest
        values += [min(end, most) for end in ends] if most > 0 else ends
        margin = 0.08 * ((max(values) - min(values)) or (self.highest - self.lowest) or 1.0)
        return max(min(values) - margin, self.lowest), min(max(values) + margin, self.highest)

    def x(self, at: datetime) -> float:
        """Return the place of a time."""
        share = (at - self.start) / ((self.end - self.start) or timedelta(seconds=1))
        return round(WIDTH * min(max(share, 0.0), 1.0), 2)

    def y(self, value: float) -> float:
        """Return the place of a value."""
        low, high = self.limits
        return round(HEIGHT * (1 - (value - low) / ((high - low) or 1.0)), 2)

    @property
    def rows(self) -> list[tuple[HistoryPoint, HistoryPoint | None]]:
        """The points, each as it is drawn; None for one that is not.

        A point that holds a change has values from before and after it. Where both sides have points of their own,
        these are drawn up to the change, and the point between them is not.
        """
        points = [*self.points]
        drawn: list[HistoryPoint | None] = [*points]
        changes = {mark.at for mark in self.marks if mark.kind in {"began", "deploy", "opened"}}
        changes |= set() if self.changed_at is None else {self.changed_at}
        for place in range(1, len(points) - 1):
            before, point, after = points[place - 1 : place + 2]
            held = [change for change in changes if point.start < change < point.end]
            earlier, is_near = drawn[place - 1], before.end == point.start and point.end == after.start
            if held and is_near and earlier is not None:
                drawn[place - 1] = replace(earlier, end=min(held))
                drawn[place] = None
                drawn[place + 1] = points[place + 1] = replace(after, start=min(held))
        return [*zip(self.points, drawn, strict=True)]

    @property
    def stretches(self) -> list[list[HistoryPoint]]:
        """The drawn points without gaps between them: nothing is drawn where no value was."""
        stretches: list[list[HistoryPoint]] = []
        for point in (drawn for _, drawn in self.rows if drawn is not None):
            if stretches and point.start <= stretches[-1][-1].end:
                stretches[-1].append(point)
            else:
                stretches.append([point])
        return stretches

    def band(self, stretch: Sequence[HistoryPoint]) -> str:
        """Return the outline of the interval over a stretch, as points of a polygon."""
        known = [point for point in stretch if point.lower is not None and point.upper is not None]
        high = self.limits[1]
        upper = [(x, self.y(min(point.upper, high))) for x, point in self._corners(known) if point.upper is not None]
        lower = [(x, self.y(point.lower)) for x, point in self._corners(known) if point.lower is not None]
        return " ".join(f"{x},{y}" for x, y in (*upper, *reversed(lower)))

    def line(self, stretch: Sequence[HistoryPoint]) -> str:
        """Return the line of the means over a stretch, as points of a polyline."""
        return " ".join(f"{x},{self.y(point.estimate)}" for x, point in self._corners(stretch))

    def changed(self, stretch: Sequence[HistoryPoint]) -> Sequence[HistoryPoint]:
        """Return the points of a stretch after the change of an alert that fires."""
        if self.changed_at is None:
            return []
        at = self.changed_at
        return [replace(point, start=max(point.start, at)) for point in stretch if point.end > at]

    def _corners(self, points: Sequence[HistoryPoint]) -> list[tuple[float, HistoryPoint]]:
        """Return the places of both ends of points: a mean holds for its stretch, so a change is a step."""
        return [(self.x(at), point) for point in points for at in (point.start, point.end)]

    def middle(self, point: HistoryPoint) -> float:
        """Return the place of the middle of a point in time."""
        return self.x(point.start + (point.end - point.start) / 2)
