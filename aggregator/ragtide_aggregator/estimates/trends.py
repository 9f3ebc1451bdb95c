"""The means of a view's keys, and the trend of each mean against the window before. No clock, no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .view import IntervalMethod, ScaledMean, View, ViewNumbers


class Trend(NamedTuple):
    """The mean in the window before, scaled to [0, 1], and the direction in which this window's mean differs."""

    previous: float | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """A view with the numbers, means and trends of its rows."""

    numbers: ViewNumbers
    means: list[ScaledMean]
    trends: list[Trend]
    method: IntervalMethod

    @property
    def view(self) -> View:
        """The view of the numbers."""
        return self.numbers.view

    def mean_of(self, row: int) -> ScaledMean:
        """Return the mean of a row."""
        return self.means[self.numbers.places[row]]

    def trend_of(self, row: int, unscaled: Callable[[float], float]) -> dict[str, Any]:
        """Return the trend of a row as fields of an estimate; `unscaled` maps a mean to the metric's range."""
        previous, name = self.trends[self.numbers.places[row]]
        return {} if previous is None else {"previous": unscaled(previous), "trend": name}


def measured(view: View, rows: list[int], method: IntervalMethod) -> MeasuredView:
    """Return the view with the means and trends of rows."""
    numbers = view.read(rows)
    means = numbers.means(method)
    before = view.before()
    if before is None:
        return MeasuredView(numbers, means, [Trend()] * len(rows), method)
    # Each window has half of alpha, so that both intervals hold together at the confidence.
    half = method.shared_by(2)
    pairs = zip(numbers.means(half), before.read(rows).means(half), strict=True)
    return MeasuredView(numbers, means, [trend(now, past) for now, past in pairs], method)


def trend(now: ScaledMean, past: ScaledMean) -> Trend:
    """Return the trend of a mean against the mean in the window before."""
    if past.estimate is None or now.estimate is None:
        return Trend()
    name = "rising" if now.lower > past.upper else "falling" if now.upper < past.lower else "steady"
    return Trend(past.estimate, name)
