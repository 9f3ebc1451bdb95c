"""What a rule looks at: the mean of a metric, its spread, or its error; between its own unit and [0, 1]. No state."""

from dataclasses import dataclass
from math import sqrt
from typing import Literal

from ragtide_schemas import AlertRule

from ..statistics.batches import Floats

Name = Literal["mean", "spread", "rmse"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity whose scaled form is the mean of values in [0, 1]."""

    name: Name
    lowest: float
    width: float
    center: float = 0.0
    """For a spread: the scaled mean it is measured from."""

    @property
    def _reach(self) -> float:
        """Largest possible squared distance from the centre."""
        return max(self.center, 1 - self.center) ** 2

    def taken(self, values: Floats) -> Floats:
        """Return what a detector is given for scaled values: for a spread their squared distance from the centre."""
        if self.name != "spread":
            return values
        away = values - self.center
        return away * away / self._reach

    def scaled(self, value: float) -> float:
        """Return the mean in [0, 1] that stands for a value in the quantity's unit."""
        if self.name == "mean":
            return (value - self.lowest) / self.width
        size = (value / self.width) ** 2
        return size / self._reach if self.name == "spread" else size

    def unscaled(self, mean: float) -> float:
        """Return the value, in the quantity's unit, that a mean in [0, 1] stands for."""
        if self.name == "mean":
            return self.lowest + self.width * mean
        size = max(mean, 0.0) * (self._reach if self.name == "spread" else 1.0)
        return self.width * sqrt(size)

    def moved(self, mean: float, step: float) -> float:
        """Return a mean in [0, 1] moved by a step in the quantity's unit; below 0 there is nothing."""
        value = self.unscaled(mean) + step
        return self.scaled(value) if self.name == "mean" else self.scaled(max(value, 0.0))


def quantity_of(rule: AlertRule, value_range: tuple[float, float], *, center: float | None = None) -> Quantity:
    """Return what a rule looks at, of a metric with a range; with a centre, the spread about it."""
    lowest, highest = value_range
    name: Name = "rmse" if rule.kind == "rmse" else "mean" if center is None else "spread"
    return Quantity(name, lowest, highest - lowest, center or 0.0)
