"""Two versions that serve at the same time: the difference of their means within the same time, valid at every look.

Answers are compared in blocks. A block has answers of both versions that are neighbours in time, and that have the same
segment values. What changes with the time of day, or with the mix of segments, is the same for both sides of a block.

Let y be a value in [0, 1], and d a hypothetical difference (second version minus first). In a block with m values of
the second version and n of the first, a bettor against "the difference is d or more" multiplies its capital by

    product of 1 - s n / (m + n) (y - t - d), over the second version,
    times product of 1 + s m / (m + n) (y - t), over the first,

with a stake s > 0 and a center t that were chosen before the block. Both sums of stakes are s m n / (m + n). So if the
means of the block differ by d or more, the product is 1 on average at most (the inequality of arithmetic and geometric
means; the values of a block are independent, and their means may differ). A bettor against "d or less" has the other
signs. By Ville's inequality a capital of 1 ever reaches 1 / alpha with probability alpha at most. So each look is
allowed, and nothing is assumed about the shape of the values. Each bettor spreads its capital over some stakes.

The values of a session depend on each other. A closed session of one version counts as one value, its mean. For a
session with answers of both versions the bet is on the difference of both means, which is linear.

Sources: Turner, Ly, Grünwald (2024), "Generic E-variables for exact sequential k-sample tests that allow for optional
stopping", J. Stat. Plan. Inference 230 (blocks); Waudby-Smith, Ramdas (2024), "Estimating means of bounded random
variables by betting", JRSS B 86(1) (stakes, and the interval by inversion).
"""

import struct
from collections.abc import Sequence
from math import log
from typing import Final

import numpy as np

from ..intervals.intervals import Interval
from ..tables.batches import Floats

STEPS: Final = (
    0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0,
)  # fmt: skip
"""Hypothetical differences, in the unit of a comparison; 0 and the negative ones are as well."""

DIFFERENCES: Final = np.array([*(-step for step in reversed(STEPS)), 0.0, *STEPS])
"""All hypothetical differences, rising."""

FRACTIONS: Final = np.array([0.05, 0.11, 0.3, 0.7])
"""Stakes of the bettors, as fractions of the largest stake."""

SHARES: Final = np.array([0.3, 0.5, 0.12, 0.08])
"""Share of the capital of each stake at the beginning: most has the one that finds a fall of a tenth of the answers."""

MOST_OF_A_SIDE: Final = 24
"""Most values of a side of a block, the newest. More would hardly narrow the interval."""

LEAST_OF_A_BLOCK: Final = 16
"""Least values of a block that closes; it has at least one of each side."""

_SIDES: Final = np.array([-1.0, 1.0]).reshape(2, 1, 1)
"""Signs of the stakes on the second version: bettors against `d or more`, then against `d or less`."""

_LEAST_LOSS: Final = 0.02
"""The largest stake loses the capital with the worst value; where that is hardly worse than the center, this part."""

_HEAD: Final = struct.Struct("<BdQQdd")
_VERSION: Final = 1


class SameTimeDifference:
    """The difference of the means of two versions on one metric, second minus first.

    Args:
        unit: unit of the hypothetical differences, in (0, 1]: 1 for a score, and about the mean of a metric whose
            values are far below their highest possible value, such as latency.

    >>> compared = SameTimeDifference()
    >>> for _ in range(40):
    ...     compared.add(second=[0.6], first=[0.9, 0.8, 0.9, 1.0, 0.9, 0.9, 0.9], center=0.9)
    >>> compared.interval(0.05, 0.05).upper < -0.1
    True
    """

    def __init__(self, unit: float = 1.0) -> None:
        if not 0 < unit <= 1:
            raise ValueError(f"unit is {unit}: give a number above 0, and at most 1")
        self.unit = unit
        self.n_second = 0
        """Values of the second version in blocks."""
        self.n_first = 0
        """Values of the first version in blocks."""
        self._weights = self._weighted = 0.0
        # Logarithms of the capital, by side, difference and stake.
        self._capital = np.zeros((2, DIFFERENCES.size, FRACTIONS.size))
        self._differences = unit * DIFFERENCES

    def add(self, *, second: Floats | Sequence[float], first: Floats | Sequence[float], center: float) -> None:
        """Add a block.

        Args:
            second: values of the second version in [0, 1], at least one; independent of each other.
            first: values of the first version, as well.
            center: about the mean of the first version, from what came before the block, in [0, 1].
        """
        y, x = np.asarray(second, dtype=np.float64), np.asarray(first, dtype=np.float64)
        of_second, of_first = x.size / (x.size + y.size), y.size / (x.size + y.size)
        hypothesis = center + self._differences
        # What a stake of 1 loses at most, on each side and of each version.
        losses = np.maximum(
            of_second * np.stack([1 - hypothesis, hypothesis]), of_first * np.array([[center], [1 - center]])
        )
        stakes = _SIDES * FRACTIONS / np.maximum(losses, _LEAST_LOSS * self.unit)[..., None]
        # Few factors above 0, so that their product is far from the smallest number.
        factors = 1 + of_second * stakes * (y[:, None, None, None] - hypothesis[:, None])
        others = 1 - of_first * stakes * (x[:, None, None, None] - center)
        gains = np.log(factors.prod(axis=0) * others.prod(axis=0))
        self._count(gains, of_second * y.size, float(y.mean() - x.mean()), (y.size, x.size))

    def add_session(self, *, second: float, first: float, sizes: tuple[int, int]) -> None:
        """Add a session with answers of both versions.

        Args:
            second: mean of its values of the second version in [0, 1].
            first: mean of its values of the first version.
            sizes: number of its values of the second and of the first version.
        """
        off = second - first - self._differences
        losses = np.stack([1 - self._differences, 1 + self._differences])
        stakes = _SIDES * FRACTIONS / np.maximum(losses, _LEAST_LOSS)[..., None]
        self._count(np.log1p(stakes * off[:, None]), 0.5, second - first, sizes)

    def _count(self, gains: Floats, weight: float, difference: float, sizes: tuple[int, int]) -> None:
        self._capital += gains
        self._weights += weight
        self._weighted += weight * difference
        self.n_second += sizes[0]
        self.n_first += sizes[1]

    @property
    def estimate(self) -> float | None:
        """The mean difference of the blocks, in [-1, 1]; None without a block."""
        return self._weighted / self._weights if self._weights else None

    def interval(self, alpha_lower: float, alpha_upper: float) -> Interval[float, float] | None:
        """Return the difference with its interval in [-1, 1]; None without a block.

        At every look at once, each end holds with probability 1 - alpha.

        Args:
            alpha_lower: error probability of the lower end, in (0, 1).
            alpha_upper: error probability of the upper end.
        """
        estimate = self.estimate
        if estimate is None:
            return None
        below, above = self._evidence()
        upper = _end(self._differences[::-1], below[::-1], alpha_upper, 1.0)
        lower = _end(self._differences, above, alpha_lower, -1.0)
        return Interval(estimate, min(lower, estimate), max(upper, estimate))

    def log_evidence(self, at_least: float, at_most: float) -> tuple[float, float]:
        """Return the logarithms of the capital against a difference of `at_least` or more, and of `at_most` or less.

        Args:
            at_least: one of `DIFFERENCES` times the unit; for another one the next that has less evidence counts.
            at_most: as well.
        """
        below, above = self._evidence()
        low = int(np.searchsorted(self._differences, at_least + 1e-12, side="right")) - 1
        high = int(np.searchsorted(self._differences, at_most - 1e-12))
        return (
            float(below[low]) if low >= 0 else -np.inf,
            float(above[high]) if high < above.size else -np.inf,
        )

    def _evidence(self) -> Floats:
        mixed = np.logaddexp.reduce(self._capital + np.log(SHARES), axis=-1)
        # Evidence against a difference is evidence against all beyond it.
        below = np.maximum.accumulate(mixed[0])
        above = np.maximum.accumulate(mixed[1][::-1])[::-1]
        return np.stack([below, above])

    def turned(self) -> "SameTimeDifference":
        """Return the difference of the first version minus the second."""
        turned = SameTimeDifference(self.unit)
        turned.n_second, turned.n_first = self.n_first, self.n_second
        turned._weights, turned._weighted = self._weights, -self._weighted
        turned._capital = self._capital[::-1, ::-1].copy()
        return turned

    def to_bytes(self) -> bytes:
        """Return the state as bytes, exactly."""
        head = _HEAD.pack(_VERSION, self.unit, self.n_second, self.n_first, self._weights, self._weighted)
        return head + self._capital.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "SameTimeDifference":
        """Return what `to_bytes` stored.

        Raises: ValueError if the bytes were written by another version, or hold an impossible number.
        """
        compared = cls()
        size = _HEAD.size + compared._capital.nbytes
        if len(data) != size or data[0] != _VERSION:
            raise ValueError(f"{len(data)} bytes of version {data[:1].hex()} are no difference of two versions")
        _, unit, compared.n_second, compared.n_first, weights, weighted = _HEAD.unpack_from(data)
        capital = np.frombuffer(data, "<f8", offset=_HEAD.size).reshape(compared._capital.shape).copy()
        if not (0 < unit <= 1 and np.isfinite(capital).all() and weights >= 0 and abs(weighted) <= weights):
            raise ValueError("a number is not finite, or impossible for any values")
        compared.unit, compared._weights, compared._weighted, compared._capital = unit, weights, weighted, capital
        compared._differences = unit * DIFFERENCES
        return compared


def _end(differences: Floats, evidence: Floats, alpha: float, last: float) -> float:
    """Return the end of the interval: differences come from outside to inside, and their evidence falls."""
    line = -log(alpha)
    rejected = int(np.count_nonzero(evidence >= line))
    if not rejected:
        return last
    if rejected == evidence.size:
        return float(differences[-1])
    outer, inner = evidence[rejected - 1], evidence[rejected]
    share = (outer - line) / (outer - inner)
    return float(differences[rejected - 1] + share * (differences[rejected] - differences[rejected - 1]))
