"""The statistic that a rule compares: mean, spread or error, kappa, or a share, with its scaling and its limit."""

from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from ragtide_schemas import AlertRule, Movement
from ragtide_schemas.alert_kinds import Quantity

from ..statistics.tables.batches import Floats

_LINEAR: Final = ("mean", "kappa", "share")


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic whose scaled form is the mean of values in [0, 1]; kappa stays as it is."""

    name: Quantity
    lowest: float
    width: float
    center: float = 0.0
    """Scaled mean from which a spread is measured."""
    group: int = 0
    """Group of values whose share it is (`statistics.drift.value_groups`)."""

    @property
    def _reach(self) -> float:
        return max(self.center, 1 - self.center) ** 2

    def transformed(self, values: Floats, mean_squares: Floats | None = None) -> Floats:
        """Return the values that a detector takes: for a spread, the squared distances from the centre.

        Args:
            values: single values, or means of clusters of values.
            mean_squares: of clusters, the means of the squares of their values; nan for a single value.
        """
        if self.name != "spread":
            return values
        away = values - self.center
        single = away * away / self._reach
        if mean_squares is None:
            return single
        squares = mean_squares - 2 * self.center * values + self.center**2
        return np.where(np.isnan(mean_squares), single, np.clip(squares / self._reach, 0.0, 1.0))

    def scaled(self, value: float) -> float:
        """Return the mean in [0, 1] of a value in the statistic's unit."""
        if self.name in _LINEAR:
            return (value - self.lowest) / self.width
        size = (value / self.width) ** 2
        return size / self._reach if self.name == "spread" else size

    def unscaled(self, mean: float) -> float:
        """Return the value in the statistic's unit of a mean in [0, 1]."""
        if self.name in _LINEAR:
            return self.lowest + self.width * mean
        size = max(mean, 0.0) * (self._reach if self.name == "spread" else 1.0)
        return self.width * sqrt(size)

    def moved(self, mean: float, step: float) -> float:
        """Return a mean in [0, 1] moved by a step in the statistic's unit; a spread or an error is at least 0."""
        value = self.unscaled(mean) + step
        return self.scaled(value) if self.name in _LINEAR else self.scaled(max(value, 0.0))


def statistic_of(rule: AlertRule, value_range: tuple[float, float], *, center: float | None = None) -> Statistic:
    """Return the statistic of a rule on values with a range; with a centre, the spread about it."""
    lowest, highest = value_range
    if rule.quantile is not None:
        return Statistic("share", lowest, highest - lowest)
    name: Quantity = "rmse" if rule.compares_errors else "mean" if center is None else "spread"
    return Statistic(name, lowest, highest - lowest, center or 0.0)


@dataclass(slots=True)
class RuleDetector:
    """One detector of a rule: its row in the table, direction and statistic, and whether it takes values."""

    row: int
    movement: Movement
    statistic: Statistic
    active: bool = False
    first: int = 0
    """Number of first answers of a session that it takes together; 0 if it takes whole clusters and single values."""

    def limit(self, rule: AlertRule, reference: float, *, watching: bool) -> float:
        """Return the limit of the scaled mean: `min_effect` beyond a reference, while a change is looked for.

        While its end is looked for, it is back from there by `hysteresis`. It stays inside the range then, so that a
        mean can lie beyond it.
        """
        back = 1 if self.movement == "fall" else -1
        limit = self.statistic.moved(reference, -back * rule.min_effect)
        if watching:
            return limit
        moved = self.statistic.moved(limit, back * rule.hysteresis)
        return min(moved, (limit + 1) / 2) if self.movement == "fall" else max(moved, limit / 2)
