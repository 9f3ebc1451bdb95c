"""Chooses the leader of a race and the configs to be eliminated, from their duels; racing.py has the reasons."""

import numpy as np

from ..tables.batches import Floats
from .duels import Flags


def leading(mean: Floats, seen: Floats, running: Flags) -> int:
    """Return the running config that is the least behind any other running config.

    A config that joined late leads only with half as many items as the config with the most, so that few items do not
    decide.

    Args:
        mean: shape (count, count): mean differences, column minus row.
        seen: numbers of items of the means; on the diagonal, numbers of items with a score.
        running: whether each config runs; at least one does.
    """
    places = np.flatnonzero(running)
    items = seen[places, places]
    places = places[2 * items >= items.max()]
    return int(places[np.argmin(mean[np.ix_(places, places)].max(axis=1))])


def ruled_out(
    reached: Flags, ruled: Flags, *, mean: Floats, seen: Floats, running: Flags, out: Flags, protected: Flags
) -> list[tuple[int, int]]:
    """Return the configs to eliminate now, each with the leader, the furthest behind first.

    Every eliminated config keeps a running heir: a config that ruled it out directly.

    Args:
        reached: shape (count, count): whether the capital against "row is better than column" is large enough.
        ruled: as `reached`, but also true for duels that have begun anew since.
        mean: mean differences, column minus row.
        seen: numbers of items of the means.
        running: whether each config runs.
        out: whether each config was eliminated before.
        protected: whether each config must not be eliminated.
    """
    running, out = running.copy(), out.copy()
    if not running.any():
        return []
    leader = leading(mean, seen, running)
    lost = np.flatnonzero(reached[:, leader] & (mean[:, leader] >= 0) & running & ~protected)
    result = []
    for place in sorted(lost.tolist(), key=lambda row: (mean[row, leader], row), reverse=True):
        heirs = ruled & running
        heirless = out & heirs[:, place] & (heirs.sum(axis=1) == 1)
        if place != leader and not heirless.any():
            result.append((place, leader))
            running[place], out[place] = False, True
    return result
