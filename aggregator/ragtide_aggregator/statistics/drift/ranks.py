"""The rank of each value among earlier values of the same stream, as a bet on a change can take it. Pure.

If nothing changes, the values are exchangeable, and the share of earlier values below a new one (half of those equal to
it count) has mean 1/2, whatever their distribution. So no mean has to be learned, and none can be learned too low or
too high: a value is compared with all that came before, and the comparison sharpens with each value. A fall shows as
ranks whose mean is below 1/2. The rank of a value with only two levels is a linear function of it, so a bet on ranks
then loses nothing against a bet on the values.

The latest third of the values, at most `WAITING`, waits before later values are compared with it: a change does not
hide in its own shadow. Its price is a run length that is simulated (benchmarks/falls.py) and not proven.

Source of ranks as evidence against exchangeability: Vovk, Gammerman, Shafer (2022), "Algorithmic Learning in a Random
World", chapter 8.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats
from .drift import Direction

BINS: Final = 128
"""Values in [0, 1] are compared in steps of 1 / `BINS`."""

LEAST: Final = 30
"""Number of first values that are only learned."""

WAITING: Final = 256
"""Most values that wait before later values are compared with them; of fewer than three times as many, a third do."""

AT_ONCE: Final = 256
"""Values that are ranked together."""

Bins = NDArray[np.int64]


class Ranked(NamedTuple):
    """Ranks of values, scaled so that they are in [0, 1]; shape (n,)."""

    ranks: Floats
    limits: Floats
    """The mean that the ranks have after the largest change that does not matter."""


def bins_of(values: Floats) -> Bins:
    """Return the steps of values in [0, 1]."""
    return np.rint(values * BINS).astype(np.int64)


class EarlierValues:
    """The values of one stream so far, as later ones are compared with them.

    Attributes:
        n: number of values so far.
    """

    def __init__(self) -> None:
        self.n = 0
        # By step: number of the values that later ones are compared with. The others wait, in order.
        self._counts = np.zeros(BINS + 1, dtype=np.int64)
        self._waiting = np.zeros(0, dtype=np.int64)
        # How far the mean rank moves with the mean of the values, since so many values; and when it is measured again.
        self._slope, self._measured_next = 0.0, LEAST

    def add(self, bins: Bins) -> None:
        """Add values, in order."""
        for start in range(0, bins.size, AT_ONCE):
            self._add(bins[start : start + AT_ONCE])

    def _add(self, bins: Bins) -> None:
        values, first = np.concatenate([self._waiting, bins]), self.n
        compared = _compared(first + np.arange(bins.size + 1)) - (first - self._waiting.size)
        while self._measured_next <= first + bins.size:
            before = self._counts + np.bincount(values[: compared[self._measured_next - first]], minlength=BINS + 1)
            self._slope = _slope(before)
            self._measured_next = _next_measured(self._measured_next)
        self.n += bins.size
        self._counts += np.bincount(values[: compared[-1]], minlength=BINS + 1)
        self._waiting = values[compared[-1] :]

    def ranked(self, bins: Bins, movement: Direction, step: float) -> Ranked:
        """Return the ranks of the next values, which are not added.

        Ranks are scaled by the highest rank that a value can have (by the lowest for a rise), as the bet on values with
        few levels needs it: 9 of 10 values may be the best there is. One value at the bad end of the range counts as if
        it had come before all, so that the first bad value is not beyond all experience.

        Args:
            bins: at least `LEAST` values came before.
            movement: direction of a bad change.
            step: largest change of the mean of the values that does not matter, in [0, 1].
        """
        if bins.size <= AT_ONCE:
            return self._ranked(bins, movement, step)
        before, parts = EarlierValues(), []
        before.load(self.dump())
        for start in range(0, bins.size, AT_ONCE):
            part = bins[start : start + AT_ONCE]
            parts.append(before._ranked(part, movement, step))
            before._add(part)
        return Ranked(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _ranked(self, bins: Bins, movement: Direction, step: float) -> Ranked:
        # A rise is the fall of the mirrored values.
        falls = movement == "fall"
        new, waiting, counts = (
            (bins, self._waiting, self._counts) if falls else (BINS - bins, BINS - self._waiting, self._counts[::-1])
        )
        values, numbers = np.concatenate([waiting, new]), self.n + np.arange(bins.size)
        compared = _compared(numbers)
        ends = compared - (self.n - waiting.size)
        inside = np.arange(values.size) < ends[:, None]
        below = np.concatenate([[0], 1 + np.cumsum(counts)])

        def rank(of: Bins) -> Floats:
            less = below[of] + np.count_nonzero((values < of[:, None]) & inside, axis=1)
            equal = counts[of] + (of == 0) + np.count_nonzero((values == of[:, None]) & inside, axis=1)
            return np.asarray((less + (equal + 1) / 2) / (compared + 2))

        known = np.flatnonzero(counts)
        best = np.maximum.accumulate(np.concatenate([known[-1:] if known.size else [0], values]))[ends]
        largest = rank(best)
        scaled = np.minimum(rank(new) / largest, 1.0)
        slopes = np.array(self._slopes(bins, numbers, ends))
        limits = np.exp(-2 * step * slopes) / (2 * largest)
        return Ranked(scaled, limits) if falls else Ranked(1 - scaled, 1 - limits)

    def _slopes(self, bins: Bins, numbers: NDArray[np.int64], ends: NDArray[np.int64]) -> list[float]:
        values = np.concatenate([self._waiting, bins])
        slopes, slope, measured_next = [], self._slope, self._measured_next
        for number, end in zip(numbers.tolist(), ends.tolist(), strict=True):
            if number >= measured_next:
                slope = _slope(self._counts + np.bincount(values[:end], minlength=BINS + 1))
                measured_next = _next_measured(measured_next)
            slopes.append(slope)
        return slopes

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        some = np.flatnonzero(self._counts)
        return {
            "n": self.n,
            "counts": [some.tolist(), self._counts[some].tolist()],
            "waiting": self._waiting.tolist(),
            "slope": self._slope,
            "measured_next": self._measured_next,
        }

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Set the state to what `dump` returned."""
        steps, counts = dumped["counts"]
        self.n, self._counts = dumped["n"], np.zeros(BINS + 1, dtype=np.int64)
        self._counts[steps] = counts
        self._waiting = np.array(dumped["waiting"], dtype=np.int64)
        self._slope, self._measured_next = dumped["slope"], dumped["measured_next"]


def _compared(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many values the next one is compared with after so many."""
    return numbers - np.minimum(numbers // 3, WAITING)


def _next_measured(number: int) -> int:
    return number + max(number // 10, 1)


def _slope(counts: NDArray[np.int64]) -> float:
    """Return how far the mean rank moves per change of the mean of values: the regression of ranks on values.

    It is 1/2 for values of which some are 0 and the others 1, and so while all values are equal.
    """
    n, values = int(counts.sum()), np.arange(BINS + 1) / BINS
    mean = float(np.add.reduce(counts * values)) / n
    variance = float(np.add.reduce(counts * (values - mean) ** 2)) / n
    ranks = (np.cumsum(counts) - counts / 2) / n
    return float(np.add.reduce(counts * (values - mean) * ranks)) / n / variance if variance > 0 else 0.5
