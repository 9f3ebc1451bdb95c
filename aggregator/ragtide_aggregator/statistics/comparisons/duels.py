"""Duels: for each pair of configs, a bettor against "this config is better than the other by the margin or more".

Let d be the score of the other config minus the score of this one on an item, in [-1, 1]. The null hypothesis says that
the mean of d over all items of the duel on which both have a score is m = -margin or less. Items come in a random order
without replacement. So, under the null, the average of the differences still to come is known: u = (N m - sum so
far) / (N - number so far). A bettor that stakes the fraction f of the largest stake multiplies its capital by
1 + f (d - u) / (1 + u), which is 1 on average at most, whatever the data are. Capital is spread over a grid of
fractions; the sum does almost as well as the best of them, and has nothing to estimate. By Ville's inequality a capital
of 1 ever reaches 1 / alpha with probability alpha at most, so looking at any time costs nothing.

**Money moves.** All duels in which a config may be ruled out share a capital of 1. This is Bonferroni's bound, but the
shares may change. Every few items each duel gives part of its money to the duel with the config that is the most ahead
so far. A duel never gives more than it was given, so winnings stay where they were won. Consider the duels whose null
is true. Their capital, plus the money that the other duels were given, is 1 at the beginning, does not change when
money moves, and falls on average when bets are made. So the duels whose null is true ever reach 1 / alpha together with
probability alpha at most, wherever the money went.

**No score.** An item on which one of the two has no score counts as a difference of m: the sum of d - m over all items
is then 0 at most under the null, as the proof needs. But the reason of a missing score is not known. If it is the item
(an undefined metric), N - items so far are still to come. If it is the moment (an outage), the missed item is among
those whose differences are unknown, and they are N - scores so far. The less favourable of the two is used, and a
missing score never earns anything. Without missing scores both are the same. (The argument for outages is about one
duel. Money also moves by the scores of other configs, even on items that were missed here. Simulations show that this
does not raise the error; there is no proof.)

Every function takes any number of leading axes, so that simulations run side by side.

Sources: Waudby-Smith, Ramdas (2024), "Estimating means of bounded random variables by betting", JRSS B 86(1), sections
4 and 5 (without replacement); Shekhar, Ramdas (2023), "Nonparametric two-sample testing by betting"; Cover, Ordentlich
(1996), "Universal portfolios with side information" (the mixture over fractions).
"""

from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats

Flags = NDArray[np.bool_]

FRACTIONS: Final = np.array([0.06, 0.15, 0.3, 0.45, 0.6, 0.8, 0.97])
"""Stakes of the bettors, as fractions of the largest stake; each bettor has the same share of the capital."""

MOVE_EVERY: Final = 5
"""Items between two moves of money."""

MOVED: Final = 0.2
"""Share of the money that moves."""

CAUTION: Final = 10
"""Items with a difference of 0 that are added to each duel before the config ahead is chosen."""

RICHEST: Final = 1e200
"""Capital at which a bettor stops counting."""

POOREST: Final = 1e-200
"""Capital below which a bettor has none."""

_NARROWEST: Final = 1e-9
_HALVINGS: Final = 14


def _gains(
    difference: Floats, *, null: float, total: Floats, seen: Floats, left: Floats | float, unseen: Floats
) -> Floats:
    owed = null * seen - total
    mean = null + owed / np.where(owed > 0, left, unseen)
    room = np.maximum(1 + mean, _NARROWEST)
    return np.where(np.isnan(difference), np.minimum((1 + null) / room, 1.0), (1 + difference) / room)


class Duels:
    """Bettors of all ordered pairs of `count` configs: the row may be ruled out by the column.

    Args:
        shape: leading axes and the number of configs, such as (16,) or (500, 16).
        population: number of all items.
        margin: difference that does not matter, as a share of the range.
        money: capital of each config at the beginning, for all of its duels.
    """

    def __init__(self, shape: tuple[int, ...], *, population: int, margin: float, money: float = 1.0) -> None:
        pairs = (*shape, shape[-1])
        self._population, self._null = population, -margin
        self._others = ~np.eye(shape[-1], dtype=np.bool_)
        self.paid = np.where(self._others, money / (shape[-1] - 1), np.zeros(pairs))
        """Money that each duel was given, minus the money that it gave to others."""
        self.capital = np.repeat(self.paid[..., None] / FRACTIONS.size, FRACTIONS.size, axis=-1)
        """Capital of the bettors of each duel, by fraction."""
        self.total = np.zeros(pairs)
        """Sums of the differences, column minus row."""
        self.seen = np.zeros(pairs)
        """Number of the differences; on the diagonal, number of scores."""
        self.first = np.zeros(pairs)
        """Number of items before the duel began."""
        self.last = np.zeros(pairs)
        """Number of items up to the duel's end, or up to now."""
        self.share = self.paid.copy()
        """Capital of each bettor when the duel began."""
        self.evidence = self.paid.copy()
        """Highest capital of each bettor so far."""

    @property
    def mean(self) -> Floats:
        """Mean differences so far; 0 without any."""
        return np.asarray(self.total / np.maximum(self.seen, 1))

    def play(self, item: int, scores: Floats, playing: Flags) -> None:
        """Bet on one item.

        Args:
            item: number of items before it.
            scores: shape (..., count), in [0, 1], higher is better; nan for a missing score.
            playing: shape (..., count): whether each config takes part.
        """
        pairs = playing[..., :, None] & playing[..., None, :]
        difference = scores[..., None, :] - scores[..., :, None]
        left = float(self._population - item)
        unseen = self._population - self.first - self.seen
        gains = _gains(difference, null=self._null, total=self.total, seen=self.seen, left=left, unseen=unseen)
        gains = np.where(pairs, gains, 1.0)
        capital = self.capital * (1 - FRACTIONS + FRACTIONS * gains[..., None])
        self.capital = np.where(capital < POOREST, 0.0, np.minimum(capital, RICHEST))
        owned = self.capital.sum(-1)
        self.evidence = np.maximum(self.evidence, np.minimum(owned, RICHEST))
        known = pairs & ~np.isnan(difference)
        self.total += np.where(known, difference, 0.0)
        self.seen += known
        self.last = np.where(pairs, item + 1.0, self.last)
        if (item + 1) % MOVE_EVERY == 0:
            self._move(pairs & self._others, owned)

    def _move(self, pairs: Flags, owned: Floats) -> None:
        ahead = np.where(pairs, self.total / (self.seen + CAUTION), -np.inf)
        target = pairs & (np.arange(ahead.shape[-1]) == ahead.argmax(axis=-1)[..., None])
        give = np.where(target | ~target.any(axis=-1, keepdims=True), 0.0, MOVED * np.minimum(owned, self.paid))
        take = np.where(target, give.sum(axis=-1, keepdims=True), 0.0)
        self.paid += take - give
        # In proportion to the capital of the fractions, so that fractions that earned more continue with more.
        some = np.where(owned > POOREST, owned, 1.0)[..., None]
        parts = np.where(owned[..., None] > POOREST, self.capital / some, 1 / FRACTIONS.size)
        self.capital += parts * (take - give)[..., None]

    def grow(self, item: int, *, own: float, others: float) -> None:
        """Add a config that joins after a number of items; money as in `restart`. For one race only."""
        count = self.total.shape[0]
        for name in ("total", "seen", "first", "last", "evidence", "share", "paid", "capital"):
            old = getattr(self, name)
            new = np.zeros((count + 1, count + 1, *old.shape[2:]))
            new[:count, :count] = old
            setattr(self, name, new)
        self._others = ~np.eye(count + 1, dtype=np.bool_)
        self.restart(count, item, own=own, others=others)

    def restart(self, place: int, item: int, *, own: float, others: float) -> None:
        """Begin all duels of a config anew after a number of items. For one race only.

        Args:
            place: place of the config.
            item: number of items so far.
            own: money for all duels in which this config may be ruled out.
            others: money for each duel in which this config may rule out another.
        """
        row, column = (place, slice(None)), (slice(None), place)
        for where, money in ((row, own / (self.total.shape[0] - 1)), (column, others)):
            self.total[where] = self.seen[where] = 0.0
            self.first[where] = self.last[where] = item
            stakes = np.where(self._others[where], money, 0.0)
            self.share[where] = self.evidence[where] = self.paid[where] = stakes
            self.capital[where] = stakes[:, None] / FRACTIONS.size


def least_difference(differences: Floats, *, population: int, alpha: float) -> float:
    """Return a lower bound for the mean difference of a duel, valid at every look with probability 1 - alpha.

    The bound is the highest mean against which the bettors reach 1 / alpha: against a higher mean they earn less.

    Args:
        differences: other minus this config on the items since the duel began, in [-1, 1]; nan if a score is missing.
        population: number of all items of the duel.
        alpha: error probability.
    """
    known = ~np.isnan(differences)
    if not known.any():
        return -1.0
    filled = np.where(known, differences, 0.0)
    estimate = float(filled.sum() / known.sum())
    if differences.size >= population:
        return estimate
    total = np.cumsum(filled) - filled
    seen = np.cumsum(known) - known.astype(np.float64)
    left = population - np.arange(differences.size, dtype=np.float64)
    low, high = -1.0, 1.0
    for _ in range(_HALVINGS):
        null = (low + high) / 2
        gains = _gains(differences, null=null, total=total, seen=seen, left=left, unseen=population - seen)
        grown = np.cumsum(np.log1p(FRACTIONS * (gains[:, None] - 1)), axis=0)
        rich = np.max(np.logaddexp.reduce(grown, axis=1)) - log(FRACTIONS.size) >= -log(alpha)
        low, high = (null, high) if rich else (low, null)
    # Earlier items may have ruled out a value that all items together allow.
    return min(low, estimate)
