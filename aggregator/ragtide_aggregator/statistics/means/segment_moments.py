"""Moments of scores in each value of one segment name, such as each language, in a stretch of traffic."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..tables import scipy_functions
from ..tables.batches import Floats

RARE_N: Final = 10
"""A segment value with fewer items in the reference stretch has no mean of its own there."""

LONG_TAIL: Final = 0.05
"""Share of the reference stretch in rare values from which on these are one group with a mean of its own."""

_ROUNDING: Final = 1e-9
"""Of the squared deviations of items without a value, which are differences of sums."""


@dataclass(frozen=True, slots=True)
class SegmentMoments:
    """Moments of scores in [0, 1] in each segment value; the values are on the last axis.

    Each item counts in one segment value. Items without a value, or with one that is not kept, are a value as well.
    """

    n: Floats
    """Number of items, 0 or more."""
    mean: Floats
    """Mean of their scores; of no meaning where n is 0."""
    m2: Floats
    """Sum of squared deviations from the mean."""

    @classmethod
    def of(cls, n: ArrayLike, mean: ArrayLike, m2: ArrayLike) -> "SegmentMoments":
        """Return checked moments.

        Raises: ValueError unless counts and squares are 0 or more, means in [0, 1], all of one shape, and some n > 0.
        """
        ns, means, squares = (np.asarray(value, dtype=np.float64) for value in (n, mean, m2))
        if not (ns.shape == means.shape == squares.shape and ns.ndim >= 1):
            raise ValueError("n, mean and m2 differ in shape: give one element a segment value in each")
        means = np.where(ns > 0, means, 0.0)
        if not (np.all(np.isfinite(ns)) and np.all(ns >= 0) and np.all(ns.sum(axis=-1) > 0)):
            raise ValueError("n holds a count below 0, or a stretch without any item: give stretches with scores")
        if not (np.all((means >= 0) & (means <= 1)) and np.all(squares >= 0)):
            raise ValueError("mean holds a value outside 0 to 1, or m2 one below 0: scale scores to [0, 1]")
        return cls(ns, means, squares)

    def since(self, earlier: "SegmentMoments") -> "SegmentMoments":
        """Return the moments of the items that came after the items of an earlier time, which are among these."""
        n = self.n - earlier.n
        some = n > 0
        total = self.n * self.mean - earlier.n * earlier.mean
        mean = np.where(some, np.clip(total / np.where(some, n, 1.0), 0.0, 1.0), 0.0)
        apart = earlier.n * n / np.maximum(self.n, 1) * (mean - earlier.mean) ** 2
        m2 = np.where(some, np.maximum(self.m2 - earlier.m2 - apart, 0.0), 0.0)
        return SegmentMoments(n, mean, m2)

    def with_rest(self, whole: "SegmentMoments") -> "SegmentMoments":
        """Return these and, as a last value, the moments of the items of the whole that have none of these values.

        Args:
            whole: moments of all items, of shape (1,).
        """
        left = max(float(whole.n[0]) - float(self.n.sum()), 0.0)
        mean = squares = 0.0
        if left:
            total = float(whole.n[0] * whole.mean[0]) - float((self.n * self.mean).sum())
            mean = float(np.clip(total / left, 0.0, 1.0))
            apart = float((self.n * (self.mean - whole.mean[0]) ** 2).sum() + left * (mean - whole.mean[0]) ** 2)
            squares = max(float(whole.m2[0]) - float(self.m2.sum()) - apart, 0.0)
            squares = 0.0 if squares < _ROUNDING else squares
        return SegmentMoments.of(np.append(self.n, left), np.append(self.mean, mean), np.append(self.m2, squares))

    @property
    def total(self) -> Floats:
        """Number of items in all segment values, one axis less."""
        return np.asarray(self.n.sum(axis=-1))

    @property
    def shares(self) -> Floats:
        """Share of the items in each segment value."""
        return np.asarray(self.n / self.n.sum(axis=-1, keepdims=True))

    @property
    def overall(self) -> Floats:
        """Mean of all items, one axis less."""
        return np.asarray((self.n * self.mean).sum(axis=-1) / self.total)

    @property
    def v(self) -> Floats:
        """Intrinsic time of each segment value: its items against the mean of those before, the first against 1/2.

        The order of the items is not known; this is the mean over all orders, which every order has in expectation if
        the items of a segment value are exchangeable: E (x_1 - 1/2)^2 = (mean - 1/2)^2 + m2 / n, and the item after k
        others deviates by s^2 (1 + 1/k), where s^2 = m2 / (n - 1).
        """
        later = np.maximum(self.n - 1, 1)
        digamma = scipy_functions.digamma
        harmonic = np.where(self.n > 1, digamma(np.maximum(self.n, 2)) - digamma(1.0), 0.0)
        first = (self.mean - 0.5) ** 2 + self.m2 / np.maximum(self.n, 1)
        return np.where(self.n > 0, first + self.m2 / later * np.where(self.n > 1, later + harmonic, 0.0), 0.0)

    def pooled(self, members: NDArray[np.bool_]) -> "SegmentMoments":
        """Return moments in which these segment values are empty, and one more value at the end holds their items."""
        n = np.where(members, self.n, 0.0)
        count = n.sum(axis=-1, keepdims=True)
        mean = (n * self.mean).sum(axis=-1, keepdims=True) / np.maximum(count, 1)
        m2 = (np.where(members, self.m2, 0.0) + n * (self.mean - mean) ** 2).sum(axis=-1, keepdims=True)
        kept = [np.where(members, 0.0, values) for values in (self.n, self.mean, self.m2)]
        return SegmentMoments(
            *(np.concatenate([values, last], axis=-1) for values, last in zip(kept, (count, mean, m2), strict=True))
        )


@dataclass(frozen=True, slots=True)
class Stretches:
    """The reference stretch and the stretch since the change, in the same groups of segment values.

    Groups are formed by the reference stretch alone, so the stretch since the change does not choose them.
    """

    reference: SegmentMoments
    since: SegmentMoments
    known: NDArray[np.bool_]
    """Groups that have a mean in the reference stretch. All change of the others is change of the mix."""
    pooled: NDArray[np.bool_]
    """Segment values that are in the last group, shape of the segment values that were given."""


def stretches(reference: SegmentMoments, since: SegmentMoments) -> Stretches:
    """Return two stretches in groups: a segment value each, and a last group for rare ones.

    A value with fewer than `RARE_N` items in the reference stretch has no mean to compare with. If the rare values
    together are less than `LONG_TAIL` of it, their items are traffic that was not there before: new. If they are more,
    as with the ids of users, being rare is usual, and all rare values are one group.

    Raises: ValueError if the two have different segment values.
    """
    if reference.n.shape[-1] != since.n.shape[-1]:
        raise ValueError(
            "the stretches have different segment values: give both the same, with 0 items where there are none"
        )
    shape = np.broadcast_shapes(reference.n.shape, since.n.shape)
    before, after = (
        SegmentMoments(*(np.broadcast_to(part, shape) for part in (moments.n, moments.mean, moments.m2)))
        for moments in (reference, since)
    )
    rare = before.n < RARE_N
    count = np.where(rare, before.n, 0.0).sum(axis=-1)
    usual = (count >= RARE_N) & (count >= LONG_TAIL * before.total)
    members = rare & usual[..., None]
    grouped = before.pooled(members)
    return Stretches(grouped, after.pooled(members), grouped.n >= RARE_N, members)
