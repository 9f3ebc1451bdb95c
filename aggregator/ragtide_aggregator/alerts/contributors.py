"""The interactions that moved a mean most since any time in the past, in a list that stays short."""

from bisect import insort
from itertools import compress
from typing import Final, NamedTuple

import numpy as np

from ..statistics.batches import Floats, Rows

WORST_KEPT: Final = 5
"""Interactions named in an alert."""


class Bad(NamedTuple):
    """An interaction with a value beyond the alarm line."""

    number: int
    """Which value of its key it was."""
    badness: float
    interaction_id: str


_AT_ONCE: Final = 16


def contenders(badness: Floats) -> Rows:
    """Return the places, rising, of those that fewer than five later ones are as bad as.

    The others need not be added to a `Worst`, to which these are added in order: it forgets them at once, and whatever
    they make it forget these make it forget.
    """
    found: list[int] = []
    # The five worst so far, from the last on: an earlier one is to be worse than the least of them.
    worst: list[float] = []
    left = np.arange(badness.size)
    while left.size:
        for place in left[-_AT_ONCE:].tolist()[::-1]:
            bad = float(badness[place])
            if len(worst) < WORST_KEPT or bad > worst[0]:
                found.append(place)
                insort(worst, bad)
                del worst[:-WORST_KEPT]
        left = left[:-_AT_ONCE]
        if len(worst) == WORST_KEPT:
            left = left[badness[left] > worst[0]]
    return np.array(found[::-1], dtype=np.intp)


class Worst:
    """Of the values since whichever time the change is found to have begun, the five worst.

    An interaction is forgotten when five later ones are as bad: whatever the change point will be, it is not among the
    worst. What is left grows with the logarithm of the number of values.
    """

    def __init__(self) -> None:
        self._kept: list[Bad] = []
        # How many later ones are as bad as each.
        self._beaten: list[int] = []

    def add(self, bad: Bad) -> None:
        """Add an interaction; they come in the order of their numbers."""
        badness, beaten = bad.badness, self._beaten
        for place, one in enumerate(self._kept):
            if one.badness <= badness:
                beaten[place] += 1
        if WORST_KEPT in beaten:
            self._keep([count < WORST_KEPT for count in beaten])
        self._kept.append(bad)
        self._beaten.append(0)

    def _keep(self, which: list[bool]) -> None:
        self._kept = list(compress(self._kept, which))
        self._beaten = list(compress(self._beaten, which))

    def since(self, number: int) -> list[Bad]:
        """Return the worst from a number on, the worst first and of equals the first."""
        return sorted((bad for bad in self._kept if bad.number >= number), key=lambda bad: -bad.badness)[:WORST_KEPT]

    def forget_before(self, number: int) -> None:
        """Forget what came before a number."""
        self._keep([bad.number >= number for bad in self._kept])

    def clear(self) -> None:
        """Forget all."""
        self._kept, self._beaten = [], []

    def dump(self) -> list[tuple[int, float, str]]:
        """Return what is kept, to be given to `load`."""
        return [(bad.number, bad.badness, bad.interaction_id) for bad in self._kept]

    def load(self, dumped: list[tuple[int, float, str]]) -> None:
        """Take on what `dump` returned."""
        self.clear()
        for bad in dumped:
            self.add(Bad(*bad))
