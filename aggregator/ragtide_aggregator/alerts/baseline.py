"""Learns the baseline of a rule from the first values of a key or from a past window. No clock, no I/O."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ..statistics.running import FIRST_GUESS, running_interval

BASELINE_CONFIDENCE: Final = 0.95
"""Confidence that the true mean lies within the baseline."""


@dataclass(slots=True)
class Reference:
    """Moments of values in [0, 1], with the intrinsic time of their running interval."""

    n: int = 0
    mean: float = 0.0
    v: float = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self.v += (value - (self.mean if self.n else FIRST_GUESS)) ** 2
        self.n += 1
        self.mean += (value - self.mean) / self.n

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the ends for the mean; the whole range without a value."""
        if not self.n:
            return 0.0, 1.0
        lower, upper = running_interval([self.mean], [self.n], [self.v], confidence=confidence)
        return float(lower[0]), float(upper[0])


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

    def add(self, value: float) -> None:
        """Add a value in [0, 1]."""
        if self.spread and self.center is None and 2 * self.mean.n >= self.learn_n:
            self.center = self.mean.mean
        if self.center is not None:
            self.squares.add((value - self.center) ** 2 / max(self.center, 1 - self.center) ** 2)
        self.mean.add(value)

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
        return {"mean": asdict(self.mean), "center": self.center, "squares": asdict(self.squares)}

    def load(self, dumped: dict[str, Any]) -> None:
        """Set the state to what `dump` returned."""
        self.mean, self.squares = Reference(**dumped["mean"]), Reference(**dumped["squares"])
        self.center = dumped["center"]


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
