"""Learns the baseline of a rule from the first values of a key or from a past window. No clock, no I/O."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from ..statistics.intervals.running import FIRST_GUESS, running_interval
from ..statistics.means.clustered_interval import clustered_interval
from ..statistics.means.clusters import ClusterSums

BASELINE_CONFIDENCE: Final = 0.95
"""Confidence that the true mean lies within the baseline."""


class LearnedValues(NamedTuple):
    """A value in [0, 1], or a closed cluster of values."""

    mean: float
    mean_square: float
    size: int = 1


@dataclass(slots=True)
class ReferenceClusters:
    """The sums of the interval over clusters (`statistics.clusters`), from the first cluster of several values on."""

    below: float
    above: float
    largest_below: float = 1.0
    largest_above: float = 1.0

    def add(self, size: int, guess: float, squares: float) -> None:
        """Add a cluster with a prediction of its values, and the square of its distance from it."""
        self.below += size * guess * squares
        self.above += size * (1 - guess) * squares
        self.largest_below = max(self.largest_below, size * guess)
        self.largest_above = max(self.largest_above, size * (1 - guess))


@dataclass(slots=True)
class Reference:
    """Moments of values in [0, 1], with the intrinsic time of their running interval."""

    n: int = 0
    mean: float = 0.0
    v: float = 0.0
    clusters: ReferenceClusters | None = None
    """None while all values were single ones."""

    def add(self, mean: float, size: int = 1) -> None:
        """Add a value, or a cluster of `size` values with a mean."""
        guess = self.mean if self.n else FIRST_GUESS
        squares = (size * (mean - guess)) ** 2
        if size > 1 and self.clusters is None:
            # The bounds of single values before: their distances are at most 1 on either side.
            self.clusters = ReferenceClusters(self.v, self.v)
        if self.clusters is not None:
            self.clusters.add(size, guess, squares)
        self.v += squares
        self.n += size
        self.mean += size * (mean - self.mean) / self.n

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the ends for the mean; the whole range without a value."""
        if not self.n:
            return 0.0, 1.0
        if self.clusters is None:
            lower, upper = running_interval([self.mean], [self.n], [self.v], confidence=confidence)
        else:
            lower, upper = clustered_interval(self._sums(self.clusters), confidence=confidence)
        return float(lower[0]), float(upper[0])

    def dump(self) -> dict[str, Any]:
        """Return the moments as JSON can hold them."""
        return {"n": self.n, "mean": self.mean, "v": self.v} | (
            {} if self.clusters is None else {"clusters": asdict(self.clusters)}
        )

    @classmethod
    def read(cls, dumped: dict[str, Any]) -> "Reference":
        """Return the moments that `dump` returned."""
        clusters = dumped.get("clusters")
        found = None if clusters is None else ReferenceClusters(**clusters)
        return cls(dumped["n"], dumped["mean"], dumped["v"], found)

    def _sums(self, clusters: ReferenceClusters) -> ClusterSums:
        n = np.array([self.n])
        numbers = (self.v, clusters.below, clusters.above, clusters.largest_below, clusters.largest_above)
        return ClusterSums(n, n, n, np.array([self.mean]), *(np.array([one]) for one in numbers))


@dataclass(slots=True)
class Learner:
    """Learns the mean of values, and their spread about the mean of the first half.

    The centre must be known before distances from it can be learned.
    """

    learn_n: int
    spread: bool
    mean: Reference = field(default_factory=Reference)
    center: float | None = None
    squares: Reference = field(default_factory=Reference)

    def add(self, values: LearnedValues) -> None:
        """Add a value, or a cluster of values."""
        if self.spread and self.center is None and 2 * self.mean.n >= self.learn_n:
            self.center = self.mean.mean
        if self.center is not None:
            self.squares.add(_away(values, self.center) / max(self.center, 1 - self.center) ** 2, values.size)
        self.mean.add(values.mean, values.size)

    @property
    def enough(self) -> bool:
        """Whether there are enough values for a baseline."""
        return self.mean.n >= self.learn_n

    def found(self) -> "Baseline":
        """Return the baseline learned so far."""
        confidence = 1 - (1 - BASELINE_CONFIDENCE) / (2 if self.spread else 1)
        spread = self.squares.interval(confidence) if self.spread else None
        return Baseline(self.mean.interval(confidence), self.center, spread, self.mean.n)

    def dump(self) -> dict[str, Any]:
        """Return the state, to be given to `load`."""
        return {"mean": self.mean.dump(), "center": self.center, "squares": self.squares.dump()}

    def load(self, dumped: dict[str, Any]) -> None:
        """Set the state to what `dump` returned."""
        self.mean, self.squares = Reference.read(dumped["mean"]), Reference.read(dumped["squares"])
        self.center = dumped["center"]


def _away(values: LearnedValues, center: float) -> float:
    if values.size == 1:
        return (values.mean - center) ** 2
    return max(values.mean_square - 2 * center * values.mean + center**2, 0.0)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The normal range of a statistic, scaled to [0, 1]: ends of the mean, and of the spread about a centre."""

    mean: tuple[float, float]
    center: float | None = None
    spread: tuple[float, float] | None = None
    n: int = 0
    """Number of values that it was learned from; 0 for a given baseline."""

    def dump(self) -> list[Any]:
        """Return the baseline as JSON can hold it."""
        return [self.mean, self.center, self.spread, self.n]

    @classmethod
    def read(cls, dumped: list[Any]) -> "Baseline":
        """Return the baseline that `dump` returned."""
        mean, center, spread, n = dumped
        return cls(tuple(mean), center, None if spread is None else tuple(spread), n)
