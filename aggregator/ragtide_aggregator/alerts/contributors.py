"""Contributors: the interactions that moved a mean most since a change, in a list that stays short."""

from bisect import insort
from itertools import compress
from typing import Final, NamedTuple

import numpy as np

from ..statistics.tables.batches import Floats, Rows

CONTRIBUTORS_KEPT: Final = 5
"""Contributors named in an alert."""


class Contributor(NamedTuple):
    """An interaction with a value beyond the alarm limit."""

    number: int
    """Number of the value among those of its key."""
    excess: float
    """Distance of the value from the alarm limit."""
    interaction_id: str


_AT_ONCE: Final = 16


def contenders(excess: Floats) -> Rows:
    """Return the rising places of the values that fewer than five later values exceed or equal.

    Only these values need to be added to `Contributors`, in order: it would drop the other values again, and these
    values drop all earlier contributors that the other values would drop.
    """
    places: list[int] = []
    # The five largest values so far, from the last value back; an earlier value must exceed the smallest of them.
    largest: list[float] = []
    left = np.arange(excess.size)
    while left.size:
        for place in left[-_AT_ONCE:].tolist()[::-1]:
            here = float(excess[place])
            if len(largest) < CONTRIBUTORS_KEPT or here > largest[0]:
                places.append(place)
                insort(largest, here)
                del largest[:-CONTRIBUTORS_KEPT]
        left = left[:-_AT_ONCE]
        if len(largest) == CONTRIBUTORS_KEPT:
            left = left[excess[left] > largest[0]]
    return np.array(places[::-1], dtype=np.intp)


class Contributors:
    """The five largest excesses since any change point that a detector may find later.

    An interaction is dropped when five later excesses are as large, because then it is among the five largest of no
    change point. The number of remaining interactions grows with the logarithm of the number of values.
    """

    def __init__(self) -> None:
        self._kept: list[Contributor] = []
        # For each kept contributor, the number of later excesses that are as large.
        self._beaten: list[int] = []

    def add(self, contributor: Contributor) -> None:
        """Add an interaction; interactions come in the order of their numbers."""
        excess, beaten = contributor.excess, self._beaten
        for place, kept in enumerate(self._kept):
            if kept.excess <= excess:
                beaten[place] += 1
        if CONTRIBUTORS_KEPT in beaten:
            self._keep([count < CONTRIBUTORS_KEPT for count in beaten])
        self._kept.append(contributor)
        self._beaten.append(0)

    def _keep(self, which: list[bool]) -> None:
        self._kept = list(compress(self._kept, which))
        self._beaten = list(compress(self._beaten, which))

    def since(self, number: int) -> list[Contributor]:
        """Return the contributors from a number on, the largest excess first; of equal excesses the earlier first."""
        since = (kept for kept in self._kept if kept.number >= number)
        return sorted(since, key=lambda kept: -kept.excess)[:CONTRIBUTORS_KEPT]

    def drop_before(self, number: int) -> None:
        """Drop the interactions before a number."""
        self._keep([kept.number >= number for kept in self._kept])

    def clear(self) -> None:
        """Drop all interactions."""
        self._kept, self._beaten = [], []

    def dump(self) -> list[tuple[int, float, str]]:
        """Return all interactions, for `load`."""
        return [(kept.number, kept.excess, kept.interaction_id) for kept in self._kept]

    def load(self, dumped: list[tuple[int, float, str]]) -> None:
        """Set the interactions to those that `dump` returned."""
        self.clear()
        for fields in dumped:
            self.add(Contributor(*fields))
