"""The weights of the items of an experiment on a drawn data set: its numbers are then those of the traffic. No I/O.

While configs still run, the race and the leaderboard know the weighted mean of all items from those that were run: an
item counts with its weight as a part of the largest one, so the numbers stay in the range of the metric, and intervals
that are valid at every look stay valid. Once all items have run, the interval is that of the traffic
(`stratified_mean`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan

import numpy as np

from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_aggregator.statistics.means.stratified import (
    DrawnFrom,
    RowWeights,
    draw_of,
    stratified_difference,
    stratified_mean,
)
from ragtide_aggregator.statistics.tables.batches import Floats, Rows
from ragtide_schemas.experiments import Plan


@dataclass(frozen=True, slots=True)
class ItemWeights:
    """The weights of the items of a plan, by the number of the item."""

    items: Rows
    """Items that were drawn, in the order of their strata."""
    rows: RowWeights
    units: Floats
    """Weight of each item of the plan as a part of the largest one; 0 for an item that was put in by hand."""

    @classmethod
    def of(cls, plan: Plan) -> "ItemWeights | None":
        """Return the weights of a plan; None if no item was drawn."""
        drawn = [(place, item) for place, item in enumerate(plan.drawn or ()) if item is not None]
        if not drawn:
            return None
        order, rows = draw_of([DrawnFrom(i.stratum, i.rows, i.probability, i.kept) for _, i in drawn])
        items = np.array([drawn[place][0] for place in order], dtype=np.intp)
        units = np.zeros(plan.population_size)
        units[items] = rows.weights / rows.weights.max()
        return cls(items, rows, units)

    @property
    def by_hand(self) -> int:
        """Number of items that were put in by hand."""
        return self.units.size - self.items.size

    @property
    def sentence(self) -> str:
        """What the estimates stand for."""
        return self.rows.sentence(self.by_hand)

    def stretch(self) -> float:
        """Return the factor from a mean over all items that count with their units to the weighted mean."""
        return self.units.size / float(self.units.sum())

    def covers(self, items: Mapping[int, float]) -> bool:
        """Return whether all drawn items are among those that were run."""
        return all(item in items for item in self.items.tolist())

    def mean(
        self, scores: Mapping[int, float], value_range: tuple[float, float], *, confidence: float, counts: bool
    ) -> Interval[float | None, float]:
        """Return the mean of the traffic with its interval, from scores by item; nan is an item without a score."""
        lowest, highest = value_range
        values = self._values(scores, value_range)
        if np.isnan(values).all():
            return Interval(None, lowest, highest)
        mean = stratified_mean(values, self.rows, confidence=confidence, counts=counts)
        return Interval(*(lowest + (highest - lowest) * float(end) for end in (mean.estimate, mean.lower, mean.upper)))

    def weighted(self, scores: Mapping[int, float]) -> float | None:
        """Return the weighted mean of scores by item; None without a score."""
        known = {item: score for item, score in scores.items() if not isnan(score) and self.units[item]}
        return float(np.average(list(known.values()), weights=self.units[list(known)])) if known else None

    def difference(
        self,
        first: Mapping[int, float],
        second: Mapping[int, float],
        value_range: tuple[float, float],
        *,
        confidence: float,
    ) -> Interval[float, float]:
        """Return the mean of first - second over the traffic with its interval, from scores by item."""
        width = value_range[1] - value_range[0]
        a, b = (self._values(scores, value_range) for scores in (first, second))
        both = ~(np.isnan(a) | np.isnan(b))
        gap = stratified_difference(np.where(both, a, nan), np.where(both, b, nan), self.rows, confidence=confidence)
        return Interval(*(width * float(end) for end in (gap.estimate, gap.lower, gap.upper)))

    def _values(self, scores: Mapping[int, float], value_range: tuple[float, float]) -> Floats:
        lowest, highest = value_range
        array = np.array([scores.get(item, nan) for item in self.items.tolist()])
        return np.asarray(np.clip((array - lowest) / (highest - lowest), 0.0, 1.0))


def stretched(interval: Interval[float, float], factor: float) -> Interval[float, float]:
    """Return a difference whose numbers are multiplied by a factor."""
    return Interval(factor * interval.estimate, factor * interval.lower, factor * interval.upper)
