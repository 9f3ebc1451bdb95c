"""Comparisons that are valid at every look: the difference of two streams, and the best of several on the same items.

Two streams that share no items, such as two live pipelines, are compared by one joint interval (`two_streams.py`). If
they may share items, the difference of their running intervals, each at half of alpha, holds too. Answers to the same
items are compared item by item: the effect of the item cancels, so far fewer items are needed.
"""

import struct
from itertools import combinations
from math import isfinite
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..intervals.intervals import Interval
from ..means.moments import Moments
from ..means.strategies import Table, moments_interval, resolved, table_of
from ..tables.batches import Floats
from ..tables.names import AUTO
from ..tables.tables import check_confidence, check_range
from .racing import RaceStanding
from .two_streams import stream_difference

VERSION: Final = 1
"""Version of the bytes of a comparison."""

PAIRED: Final = ("betting", "empirical_bernstein", "running")
"""Strategies for paired differences; only `betting` uses the number of all items."""


def difference(
    a: Moments, b: Moments, *, confidence: float, width: float = 1.0, counts: bool = False, separate: bool = False
) -> Interval[float, float]:
    """Return the difference of the means of two streams.

    Args:
        a: moments of one key, values scaled to [0, 1].
        b: moments of the other key.
        confidence: level in (0, 1). Without a joint interval each mean has the level (1 + confidence) / 2.
        width: width of the metric's range.
        counts: whether the values are counts, whose intervals may be `asymptotic`.
        separate: whether no item is in both streams. If each value then counts by itself, and both intervals would be
            `running`, the interval is the joint one.

    Assumes: nothing about the values except for counts. The result is about the average of each stream's mean so far.
    Raises: ValueError if one of them has no values.
    """
    if not (a.n[0] and b.n[0]):
        raise ValueError("one of the two streams has no values yet: a difference needs both")
    clustered = any(stream.clusters is not None and stream.clusters.in_use[0] for stream in (a, b))
    if separate and not clustered and all(resolved(AUTO, stream, counts)[0] == "running" for stream in (a, b)):
        ends = stream_difference(a, b, confidence=confidence)
        return Interval(float(width * (a.mean[0] - b.mean[0])), *(float(width * end[0]) for end in ends))
    level = (1 + confidence) / 2
    (a_low, a_high), (b_low, b_high) = (moments_interval(AUTO, m, confidence=level, counts=counts) for m in (a, b))
    return Interval(
        float(width * (a.mean[0] - b.mean[0])),
        float(width * (a_low[0] - b_high[0])),
        float(width * (a_high[0] - b_low[0])),
    )


class PairedComparison:
    """Finds the best of several candidates that are scored on the same items; valid after every item.

    The differences of each pair have a confidence sequence at alpha / (number of pairs), so with probability
    `confidence` all of them hold at every look. The best candidate is then never ruled out.

    Args:
        count: number of candidates, at least 2.
        confidence: level in (0, 1).
        population: number of all items, if they are drawn without replacement from a finite set.
        value_range: lowest and highest possible score.
        margin: difference that does not matter, 0 or more, in the scores' unit.
        higher_is_better: whether the best candidate has the highest mean.
        strategy: one of `PAIRED`.

    Raises: ValueError for an argument out of its range.
    Source: as the strategies; Bonferroni over pairs.

    >>> race = PairedComparison(2, population=100)
    >>> race.update([[1.0, 0.0]] * 40)
    >>> [standing.may_be_best for standing in race.standings()]
    [True, False]
    """

    def __init__(
        self,
        count: int,
        *,
        confidence: float = 0.95,
        population: int | None = None,
        value_range: tuple[float, float] = (0.0, 1.0),
        margin: float = 0.0,
        higher_is_better: bool = True,
        strategy: str = "betting",
    ) -> None:
        self._lowest, self._highest = value_range
        if count < 2:
            raise ValueError(f"count is {count}: give at least two to compare")
        check_range(value_range)
        if not (isfinite(margin) and margin >= 0):
            raise ValueError(f"margin is {margin}: give 0 or more, in the scores' unit")
        if strategy not in PAIRED:
            raise ValueError(f"strategy {strategy!r} does not apply to paired differences: use {', '.join(PAIRED)}")
        self._count, self._margin = count, margin
        self._sign = 1.0 if higher_is_better else -1.0
        self._pairs = list(combinations(range(count), 2))
        check_confidence(confidence)
        self._table: Table = table_of(strategy, confidence=1 - (1 - confidence) / len(self._pairs))
        for _ in self._pairs:
            self._table.add_row(population)
        self._n = 0
        self._sums = np.zeros(count)

    @property
    def n(self) -> int:
        """Number of items."""
        return self._n

    def update(self, scores: ArrayLike) -> None:
        """Add items, in order.

        Args:
            scores: shape (items, count).

        Raises: ValueError for a score that is not finite or outside the range, or another shape; nothing is added.
        """
        array = np.asarray(scores, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != self._count:
            raise ValueError(f"scores has shape {array.shape}: give one row per item, with {self._count} scores")
        if not np.all((array >= self._lowest) & (array <= self._highest)):
            raise ValueError(f"a score is outside {self._lowest} to {self._highest}: give the right value_range")
        scaled = (array - self._lowest) / (self._highest - self._lowest)
        first, second = (np.array(side) for side in zip(*self._pairs, strict=True))
        # Differences lie in [-1, 1]; tables take [0, 1].
        rows = np.tile(np.arange(len(self._pairs)), len(array))
        self._table.update(rows, ((scaled[:, first] - scaled[:, second] + 1) / 2).ravel())
        self._n += len(array)
        # Added item by item, so that the sums do not depend on how items were cut into batches.
        self._sums = np.add.accumulate(np.vstack([self._sums, array]))[-1]

    def to_bytes(self) -> bytes:
        """Return the state as bytes, exactly."""
        rows = [self._table.to_bytes(row) for row in range(len(self._pairs))]
        head = struct.pack("<BIQ", VERSION, self._count, self._n) + self._sums.astype("<f8").tobytes()
        return head + b"".join(struct.pack("<I", len(row)) + row for row in rows)

    def load(self, data: bytes) -> None:
        """Set the state to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version, or for another number or strategy.
        """
        size = struct.calcsize("<BIQ")
        if len(data) < size or data[0] != VERSION or struct.unpack_from("<BIQ", data)[1] != self._count:
            raise ValueError(f"a comparison of {self._count} cannot read {len(data)} bytes of version {data[:1].hex()}")
        at = size + 8 * self._count
        for row in range(len(self._pairs)):
            (length,) = struct.unpack_from("<I", data, at)
            self._table.load(row, data[at + 4 : at + 4 + length])
            at += 4 + length
        self._n = struct.unpack_from("<BIQ", data)[2]
        self._sums = np.frombuffer(data, "<f8", self._count, size).copy()

    def differences(self) -> NDArray[np.float64]:
        """Return for every pair (i, j) the ends of the interval of mean i - mean j; shape (count, count, 2)."""
        lower, upper = self._table.interval(np.arange(len(self._pairs)))
        width = self._highest - self._lowest
        ends = np.zeros((self._count, self._count, 2))
        for (i, j), low, high in zip(self._pairs, lower.tolist(), upper.tolist(), strict=True):
            ends[i, j] = width * (2 * low - 1), width * (2 * high - 1)
            ends[j, i] = -ends[i, j, 1], -ends[i, j, 0]
        return ends

    def standings(self) -> list[RaceStanding]:
        """Return the standing of each candidate against the best so far."""
        means: Floats = self._sums / self._n if self._n else np.full(self._count, np.nan)
        ends = self.differences()
        best = int(np.argmax(self._sign * self._sums))
        # The least by which j is better than i.
        at_least = np.where(self._sign > 0, ends[:, :, 0], -ends[:, :, 1])
        result = []
        for place in range(self._count):
            ahead = [float(at_least[other, place]) for other in range(self._count) if other != place]
            low, high = ends[best, place]
            behind = None if place == best else Interval(float(means[best] - means[place]), float(low), float(high))
            is_best = max(ahead) <= self._margin
            result.append(RaceStanding(place, self._n, float(means[place]), behind, running=True, may_be_best=is_best))
        return result
