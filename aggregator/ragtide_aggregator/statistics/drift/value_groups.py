"""Cuts the values of a covariate into bins and watched groups of bins, and bounds the normal share of each group.

The cuts come from the first values alone. The bins of numbers lie between quantiles of these values, below the smallest
and above the largest; a comparison with a cut is all that is done with a number, so any growing transform of the
numbers has the same bins. The bins of names are the most frequent names, and all others together.

A group is a set of bins whose share is compared with its normal share: numbers above a cut, numbers up to a cut, and
single bins between two cuts; each name, and all names but one. The share of a group in a second part of the values has
an exact interval (Clopper, Pearson), because the group is fixed by the first part. The upper ends of all groups hold
together with the confidence that is asked for (Bonferroni).

A change by a total variation distance moves the share of no group by more than this distance. So the claim "the
distribution is within d of the normal one" implies for each group "its share is at most the normal share plus d".
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..tables import scipy_functions
from ..tables.batches import Floats, Rows

QUANTILES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Of the first values, at which numbers are cut, beside their smallest and largest one."""

MOST_NAMED: Final = 9
"""Most names with a bin of their own."""

MOST_BINS: Final = MOST_NAMED + 1
"""Most bins of a covariate."""

MOST_GROUPS: Final = 2 * MOST_BINS
"""Most groups of a covariate: of seven cuts 14 with a tail and 6 between, or each of ten bins with its complement."""

OTHERS: Final = "other values"
"""The bin of all names without a bin of their own."""


class Bins(ABC):
    """The bins of the values of a covariate."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Each bin in words."""

    @property
    @abstractmethod
    def _named_groups(self) -> list[tuple[str, list[int]]]:
        """Each group in words, with its bins."""

    @abstractmethod
    def of(self, values: Sequence[Any]) -> Rows:
        """Return the bin of each value."""

    @abstractmethod
    def dump(self) -> list[Any]:
        """Return the cuts as JSON can hold them."""

    @property
    def groups(self) -> list[str]:
        """Each group in words."""
        return [name for name, _ in self._named_groups]

    @property
    def members(self) -> NDArray[np.bool_]:
        """Whether each bin is in each group; shape (MOST_GROUPS, MOST_BINS). A group that is not used has no bin."""
        members = np.zeros((MOST_GROUPS, MOST_BINS), dtype=bool)
        for number, (_, bins) in enumerate(self._named_groups):
            members[number, bins] = True
        return members


@dataclass(frozen=True)
class NumberBins(Bins):
    """Bins of numbers: below the least number, and up to each cut."""

    least: float
    """The smallest of the first numbers; numbers below it are the first bin."""
    cuts: tuple[float, ...]
    """Rising, at most one for each quantile and one for the largest; a number at a cut lies below it."""

    @classmethod
    def learned(cls, values: Sequence[float]) -> "NumberBins":
        """Return the bins between quantiles of numbers, at least one.

        >>> NumberBins.learned([3.0, 5.0, 5.0, 5.0, 8.0]).names
        ['below 3', '3', 'above 3, up to 5', 'above 5, up to 8', 'above 8']
        """
        ordered = sorted(values)
        places = [max(int(np.ceil(quantile * len(ordered))) - 1, 0) for quantile in QUANTILES]
        cuts = {ordered[place] for place in (*places, len(ordered) - 1)}
        return cls(ordered[0], tuple(sorted(cuts)))

    @property
    def names(self) -> list[str]:
        """Each bin in words."""
        least, *cuts = (_words(number) for number in (self.least, *self.cuts))
        first = least if self.cuts[0] == self.least else f"{least} to {cuts[0]}"
        between = [f"above {low}, up to {high}" for low, high in pairwise(cuts)]
        return [f"below {least}", first, *between, f"above {cuts[-1]}"]

    @property
    def _named_groups(self) -> list[tuple[str, list[int]]]:
        names, size = self.names, len(self.cuts) + 2
        least, bins = _words(self.least), range(size)
        groups = [(f"below {least}", [0]), (f"{least} or above", list(bins[1:]))]
        for number, cut in enumerate(self.cuts, 2):
            groups += [(f"up to {_words(cut)}", list(bins[:number])), (f"above {_words(cut)}", list(bins[number:]))]
        return groups + [(names[place], [place]) for place in bins[1:-1]]

    def of(self, values: Sequence[Any]) -> Rows:
        """Return the bin of each number."""
        numbers = np.asarray(values, dtype=np.float64)
        return np.asarray((numbers >= self.least) + np.searchsorted(self.cuts, numbers, side="left"), dtype=np.intp)

    def dump(self) -> list[Any]:
        """Return the cuts as JSON can hold them."""
        return [self.least, *self.cuts]


@dataclass(frozen=True)
class NameBins(Bins):
    """Bins of names: the most frequent of the first names, and all others."""

    named: tuple[str, ...]

    @classmethod
    def learned(cls, values: Sequence[str]) -> "NameBins":
        """Return a bin for each of the most frequent names; of equally frequent names the first counts.

        >>> NameBins.learned(["refund", "login", "refund"]).groups[:3]
        ['refund', 'all but refund', 'login']
        """
        return cls(tuple(name for name, _ in Counter(values).most_common(MOST_NAMED)))

    @property
    def names(self) -> list[str]:
        """Each bin in words."""
        return [*self.named, OTHERS]

    @property
    def _named_groups(self) -> list[tuple[str, list[int]]]:
        bins = set(range(len(self.named) + 1))
        groups = []
        for place, name in enumerate(self.named):
            groups += [(name, [place]), (f"all but {name}", sorted(bins - {place}))]
        return [*groups, (OTHERS, [len(self.named)])]

    def of(self, values: Sequence[Any]) -> Rows:
        """Return the bin of each name."""
        places = {name: place for place, name in enumerate(self.named)}
        return np.array([places.get(name, len(places)) for name in values], dtype=np.intp)

    def dump(self) -> list[Any]:
        """Return the names as JSON can hold them."""
        return list(self.named)


def bins_read(dumped: list[Any]) -> Bins:
    """Return the bins that `dump` returned."""
    if isinstance(dumped[0], str):
        return NameBins(tuple(dumped))
    return NumberBins(float(dumped[0]), tuple(float(cut) for cut in dumped[1:]))


def upper_shares(counts: Floats, members: NDArray[np.bool_], confidence: float) -> Floats:
    """Return upper ends for the shares of groups, which hold together; 1 for a group without bins.

    Args:
        counts: number of values in each bin, shape (bins,); values are independent.
        members: whether each bin is in each group, shape (groups, bins).
        confidence: that no share is above its end.

    Source: Clopper and Pearson (1934), Biometrika 26: 404-413.
    """
    n, used = float(counts.sum()), members.any(axis=1)
    inside = members @ counts
    level = 1 - (1 - confidence) / max(int(used.sum()), 1)
    with np.errstate(invalid="ignore"):
        ends = scipy_functions.betaincinv(inside + 1, np.maximum(n - inside, 1e-300), level)
    return np.where(used & (inside < n), ends, 1.0)


def total_variation(before: Floats, since: Floats) -> float:
    """Return the total variation distance between two lists of shares, in [0, 1].

    >>> total_variation(np.array([0.5, 0.5]), np.array([0.25, 0.75]))
    0.25
    """
    return min(float(np.abs(before - since).sum()) / 2, 1.0)


def _words(number: float) -> str:
    """Return a number in words.

    >>> _words(12000.0), _words(0.123456789)
    ('12,000', '0.123457')
    """
    return f"{number:,.0f}" if number == int(number) and abs(number) < 1e15 else f"{number:.6g}"
