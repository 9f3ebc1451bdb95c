"""Ruling: who leads a race, and who is stopped by whom, from what the duels say; why, is in racing.py."""

import numpy as np

from .batches import Floats
from .duels import Flags


def leading(mean: Floats, seen: Floats, running: Flags) -> int:
    """Return who runs and is the least behind any other that runs.

    Who came late leads only with half as many items as those who have the most, lest few items decide.

    Args:
        mean: shape (count, count): mean differences, column minus row.
        seen: numbers of items they are of; of one and itself, on which it has a score.
        running: who runs, at least one.
    """
    places = np.flatnonzero(running)
    items = seen[places, places]
    places = places[2 * items >= items.max()]
    return int(places[np.argmin(mean[np.ix_(places, places)].max(axis=1))])


def ruled_out(
    reached: Flags, ruled: Flags, *, mean: Floats, seen: Floats, running: Flags, out: Flags, protected: Flags
) -> list[tuple[int, int]]:
    """Return who is to be stopped now and by whom, the furthest behind first, keeping an heir of everybody.

    Args:
        reached: shape (count, count): whether the bettor against "row is better than column" has grown rich enough.
        ruled: the same, also of duels that have begun anew since.
        mean: mean differences, column minus row.
        seen: numbers of items they are of.
        running: who runs.
        out: who was ruled out before.
        protected: who may not be ruled out.
    """
    running, out = running.copy(), out.copy()
    if not running.any():
        return []
    leader = leading(mean, seen, running)
    lost = np.flatnonzero(reached[:, leader] & (mean[:, leader] >= 0) & running & ~protected)
    result = []
    for place in sorted(lost.tolist(), key=lambda one: (mean[one, leader], one), reverse=True):
        heirs = ruled & running
        heirless = out & heirs[:, place] & (heirs.sum(axis=1) == 1)
        if place != leader and not heirless.any():
            result.append((place, leader))
            running[place], out[place] = False, True
    return result
