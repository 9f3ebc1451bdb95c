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

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Mapping
from math import exp
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

MOST_MOVED: Final = 0.1
"""Most by which the mean rank may be lower before it counts. After any fall of values that hardly spread all ranks are
the lowest, so ranks do not say how large it is: a rule compares the means, too, before an alert fires."""

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
        # By step: number of the values that later ones are compared with, and the extreme steps. The others wait.
        self._counts = [0] * (BINS + 1)
        self._lowest, self._highest = BINS, 0
        self._waiting: deque[int] = deque()
        # How far the mean rank moves with the mean of the values, and when it is measured again.
        self._slope, self._measured_next = 0.5, LEAST

    def add(self, bins: Bins) -> None:
        """Add values, in order."""
        for step in bins.tolist():
            self._add(step)

    def _add(self, step: int) -> None:
        self.n += 1
        self._waiting.append(step)
        while len(self._waiting) > min(self.n // 3, WAITING):
            compared = self._waiting.popleft()
            self._counts[compared] += 1
            self._lowest, self._highest = min(self._lowest, compared), max(self._highest, compared)
        if self.n >= self._measured_next:
            self._slope = _slope(np.array(self._counts))
            self._measured_next = self.n + max(self.n // 10, 1)

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
        before, falls = self if bins.size == 1 else self._copy(), movement == "fall"
        ranks, limits, values = [], [], bins.tolist()
        for number, value in enumerate(values):
            if number:
                before._add(values[number - 1])
            largest = before._rank(before._highest if falls else before._lowest, falls=falls)
            ranks.append(min(before._rank(value, falls=falls) / largest, 1.0))
            limits.append(exp(-2 * min(step * before._slope, MOST_MOVED)) / (2 * largest))
        scaled, limit = np.array(ranks), np.array(limits)
        return Ranked(scaled, limit) if falls else Ranked(1 - scaled, 1 - limit)

    def _rank(self, step: int, *, falls: bool) -> float:
        counts = self._counts
        beyond = counts[:step] if falls else counts[step + 1 :]
        # The value at the bad end: beyond this one, or equal to it.
        is_worst = step == (0 if falls else BINS)
        compared = self.n - len(self._waiting)
        return (sum(beyond) + (0.0 if is_worst else 1.0) + (counts[step] + is_worst + 1) / 2) / (compared + 2)

    def _copy(self) -> "EarlierValues":
        other = EarlierValues()
        other.n, other._counts, other._waiting = self.n, self._counts.copy(), self._waiting.copy()
        other._lowest, other._highest = self._lowest, self._highest
        other._slope, other._measured_next = self._slope, self._measured_next
        return other

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        return {
            "n": self.n,
            "counts": {str(step): count for step, count in enumerate(self._counts) if count},
            "waiting": b64encode(bytes(self._waiting)).decode(),
            "slope": self._slope,
            "measured_next": self._measured_next,
        }

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Set the state to what `dump` returned."""
        counts = {int(step): count for step, count in dumped["counts"].items()}
        self.n, self._counts = dumped["n"], [counts.get(step, 0) for step in range(BINS + 1)]
        self._lowest, self._highest = min(counts, default=BINS), max(counts, default=0)
        self._waiting = deque(b64decode(dumped["waiting"]))
        self._slope, self._measured_next = dumped["slope"], dumped["measured_next"]


def _slope(counts: NDArray[np.int64]) -> float:
    """Return how far the mean rank moves per change of the mean of values: the regression of ranks on values.

    It is 1/2 for values of which some are 0 and the others 1, and so while all values are equal.
    """
    n, values = int(counts.sum()), np.arange(BINS + 1) / BINS
    mean = float(np.add.reduce(counts * values)) / n
    variance = float(np.add.reduce(counts * (values - mean) ** 2)) / n
    ranks = (np.cumsum(counts) - counts / 2) / n
    return float(np.add.reduce(counts * (values - mean) * ranks)) / n / variance if variance > 0 else 0.5
