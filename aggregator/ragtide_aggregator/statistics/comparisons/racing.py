"""Racing: configs are scored on the same items, one item after another, and each config that surely lost is eliminated.

Config i is eliminated by the leader j when the bettor against "i is better than j by the margin or more" has enough
capital (duels.py). The leader is the config whose largest deficit to any other is the smallest (ruling.py).

**Guarantee.** Take any config, for instance the truly best one. The probability that it is ever eliminated by a config
that is worse by the margin or more is at most 1 - confidence. Only its own duels can go wrong for it, so the error
probability is shared by the count - 1 other configs and not by all pairs. Most of it goes to the duel with the leader
(duels.py, "Money moves").

**Chains.** If j eliminated i, and k eliminates j, then i may be better than k by nearly two margins. So every
eliminated config keeps an heir: a running config that ruled it out directly. A config is not eliminated if it is the
last heir of another. Then, with probability `confidence`, one of the configs that run at the end is within one margin
of the truly best, however long the chain; so is the config with the best mean of all items among them. Only the leader
eliminates, so more than two configs seldom remain because of this.

**Late configs** (a clone, or a config that resumes) are compared on the items still to come. Given all scores so far,
these items are a random draw from the rest, whatever the reason to add the config. Its duels begin anew there, and
their results are about the mean of those items. Scores from before a gap are not used: other configs were scored in the
gap, and these scores may have led to the decision to resume. The number of late configs is not known, so a tenth of the
error probability is set aside for them. The k-th late config has 1 / (k (k + 1)) of it, which adds up to all of it.

**A config that a person stopped** neither eliminates nor is eliminated; the guarantee is about the other configs.

Sources: as duels.py; Maron, Moore (1997), "The racing algorithm"; Ville's inequality and a union bound.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..intervals.intervals import Interval
from ..tables.batches import Floats
from ..tables.tables import check_confidence, check_range
from .duels import Duels, least_difference
from .ruling import leading, ruled_out

RESERVE: Final = 0.1
"""Share of the error probability that is set aside for late configs."""


@dataclass(frozen=True, slots=True)
class Elimination:
    """An eliminated config, with the evidence."""

    place: int
    """Place of the eliminated config."""
    by: int
    """Place of the leader that eliminated it."""
    n: int
    """Number of items with a score of both configs."""
    item: int
    """Number of items so far."""
    difference: Interval[float, float]
    """Mean of the leader minus mean of this config so far, in the metric's unit.

    Each end holds at `confidence`, for all duels of this config together (Bonferroni). An end beyond the margin is
    moved to the margin, because the elimination shows that this config is not better by more.
    """
    evidence: float
    """Highest capital of the bettor; the duels of a config begin with a capital of 1, and 1 / alpha eliminates."""
    alpha: float
    """Error probability of all duels of this config."""


@dataclass(frozen=True, slots=True)
class RaceStanding:
    """Status of a config in a race."""

    place: int
    """Place of the config."""
    n: int
    """Number of items on which it has a score."""
    mean: float
    """Mean over these items, in the metric's unit; nan without any."""
    behind: Interval[float, float] | None
    """Mean of the leader minus mean of this config, on the items with both scores; None for the leader, or without."""
    running: bool
    """Whether the config still runs."""
    may_be_best: bool
    """Whether the leader is not surely better."""


class Race:
    """A race of several configs on the same items, one item after another.

    The same calls in the same order give the same decisions. Of equal means, the first place counts.

    Args:
        count: number of configs at the beginning, at least 2.
        population: number of all items.
        confidence: level in (0, 1).
        margin: difference that does not matter, 0 or more, in the metric's unit.
        look_every: items between two looks; configs are eliminated only at a look, and after the last item.
        value_range: lowest and highest possible score.
        higher_is_better: whether the best config has the highest mean.

    Assumes: the order of the items is random, and does not depend on the scores.
    Raises: ValueError for an argument out of its range.

    >>> race = Race(2, population=100)
    >>> losers = [loser for _ in range(20) for loser in race.update([1.0, 0.0])]
    >>> [(loser.place, loser.by, loser.item) for loser in losers], race.running
    ([(1, 0, 10)], (True, False))
    """

    def __init__(
        self,
        count: int,
        *,
        population: int,
        confidence: float = 0.95,
        margin: float = 0.02,
        look_every: int = 5,
        value_range: tuple[float, float] = (0.0, 1.0),
        higher_is_better: bool = True,
    ) -> None:
        _check(count, population, confidence=confidence, margin=margin, look_every=look_every, value_range=value_range)
        self._lowest, self._width = value_range[0], value_range[1] - value_range[0]
        self._highest = value_range[1]
        self._sign = 1.0 if higher_is_better else -1.0
        self._population, self._look_every = population, look_every
        self._error = 1 - confidence
        self._margin = margin
        self.duels = Duels((count,), population=population, margin=margin / self._width, money=1 - RESERVE)
        """The duels of all pairs of configs."""
        self.ruled = np.zeros((count, count), dtype=np.bool_)
        """Whether the config of a row was ever shown to be no better than the config of a column."""
        self._running = np.ones(count, dtype=np.bool_)
        self._out = np.zeros(count, dtype=np.bool_)
        self._protected = np.zeros(count, dtype=np.bool_)
        self._scores: list[Floats] = []
        self._joined = 0

    @property
    def items(self) -> int:
        """Number of items so far."""
        return len(self._scores)

    @property
    def running(self) -> tuple[bool, ...]:
        """For each place, whether the config is neither eliminated nor stopped."""
        return tuple(self._running.tolist())

    def copy(self) -> "Race":
        """Return an independent copy of the race."""
        return deepcopy(self, {id(self._scores): list(self._scores)})  # scores of past items do not change

    def add(self) -> int:
        """Add a config, such as a clone, which is compared on the items still to come; return its place."""
        place, item = len(self._running), self.items
        self.duels.grow(item, own=1 - RESERVE, others=self._reserved())
        self.ruled = np.pad(self.ruled, (0, 1))
        self._running = np.append(self._running, True)
        self._out, self._protected = np.append(self._out, False), np.append(self._protected, False)
        return place

    def stop(self, place: int) -> None:
        """Stop a config on request: it gets no scores, and neither eliminates nor is eliminated.

        Args:
            place: place of the config, from 0.

        Raises: ValueError if there is no such place.
        """
        self._known(place)
        self._running[place] = False

    def resume(self, place: int, *, protected: bool = False) -> None:
        """Let a stopped or eliminated config run again; its duels begin anew with the items still to come.

        Args:
            place: place of the config.
            protected: whether the config, running or not, is never eliminated again.

        Raises: ValueError if there is no such place.
        """
        self._known(place)
        self._protected[place] |= protected
        if self._running[place]:
            return
        self._running[place], self._out[place] = True, False
        share = self._reserved()
        self.duels.restart(place, self.items, own=share, others=share)
        self.ruled[place] = False

    def update(self, scores: ArrayLike) -> list[Elimination]:
        """Add the next item, and return the eliminated configs, the furthest behind first.

        Args:
            scores: shape (count,); nan for a missing score (not run, a failed call, an undefined metric). Scores of
                configs that do not run are ignored.

        Raises:
            ValueError: a score is outside the range, the shape is another one, or there are more items than the
                population has; nothing is added then.
        """
        array = np.array(scores, dtype=np.float64)
        if array.shape != self._running.shape:
            raise ValueError(f"scores has shape {array.shape}: give one score for each of the {len(self._running)}")
        if self.items == self._population:
            raise ValueError(f"population is {self._population}, and all were added: give the number of all items")
        array[~self._running] = np.nan
        if not np.all(np.isnan(array) | ((array >= self._lowest) & (array <= self._highest))):
            raise ValueError(
                f"a score is outside {self._lowest} to {self._highest}: give nan for a missing score, or the right "
                "value_range"
            )
        scaled = (array - self._lowest) / self._width
        scaled = scaled if self._sign > 0 else 1 - scaled
        self.duels.play(self.items, scaled, self._running)
        self._scores.append(scaled)
        if self.items % self._look_every and self.items < self._population:
            return []
        reached = self.duels.evidence >= 1 / self._error
        self.ruled |= reached
        losers = ruled_out(
            reached,
            self.ruled,
            mean=self.duels.mean,
            seen=self.duels.seen,
            running=self._running,
            out=self._out,
            protected=self._protected,
        )
        for place, _ in losers:
            self._running[place], self._out[place] = False, True
        return [self._elimination(place, by) for place, by in losers]

    def standings(self) -> list[RaceStanding]:
        """Return the status of each config against the leader, in the order of places; valid at any time."""
        scores = np.full((self.items, len(self._running)), np.nan)
        for item, row in enumerate(self._scores):
            scores[item, : row.size] = row
        known = ~np.isnan(scores)
        n = known.sum(axis=0)
        means = np.where(n > 0, np.where(known, scores, 0.0).sum(axis=0) / np.maximum(n, 1), np.nan)
        leader = leading(self.duels.mean, self.duels.seen, self._running) if n[self._running].any() else None
        result = []
        for place in range(len(n)):
            behind, better = None, False
            if leader is not None and place != leader and self.duels.seen[place, leader]:
                behind = self._difference(place, leader)
                better = (behind.lower if self._sign > 0 else -behind.upper) > 0
            scaled = means[place] if self._sign > 0 else 1 - means[place]
            mean = float(self._lowest + self._width * scaled)
            result.append(
                RaceStanding(place, int(n[place]), mean, behind, bool(self._running[place]), may_be_best=not better)
            )
        return result

    def difference(self, place: int, by: int) -> tuple[int, Interval[float, float]] | None:
        """Return the number of items of a duel, and the mean of `by` minus the mean of `place` with its interval.

        None without an item of their duel on which both have a score.

        Args:
            place: of the config in the duel, from 0.
            by: of the other config.
        """
        seen = int(self.duels.seen[place, by])
        return (seen, self._difference(place, by)) if seen else None

    def _elimination(self, place: int, by: int) -> Elimination:
        duels, difference = self.duels, self._difference(place, by)
        if self._sign > 0:
            difference = replace(difference, lower=max(difference.lower, -self._margin))
        else:
            difference = replace(difference, upper=min(difference.upper, self._margin))
        return Elimination(
            place=place,
            by=by,
            n=int(duels.seen[place, by]),
            item=self.items,
            difference=difference,
            evidence=float(duels.evidence[place, by]),
            alpha=self._error,
        )

    def _difference(self, place: int, by: int) -> Interval[float, float]:
        first, last = int(self.duels.first[place, by]), int(self.duels.last[place, by])
        differences = np.array([row[by] - row[place] for row in self._scores[first:last]])
        size, alpha = self._population - first, self._error * float(self.duels.share[place, by])
        least = least_difference(differences, population=size, alpha=alpha)
        most = -least_difference(-differences, population=size, alpha=alpha)
        low, high = (least, most) if self._sign > 0 else (-most, -least)
        estimate = self._sign * float(self.duels.mean[place, by])
        return Interval(self._width * estimate, self._width * min(low, estimate), self._width * max(high, estimate))

    def _reserved(self) -> float:
        self._joined += 1
        return RESERVE / (self._joined * (self._joined + 1))

    def _known(self, place: int) -> None:
        if not 0 <= place < len(self._running):
            raise ValueError(f"place is {place}: give a place from 0 to {len(self._running) - 1}")


def _check(
    count: int,
    population: int,
    *,
    confidence: float,
    margin: float,
    look_every: int,
    value_range: tuple[float, float],
) -> None:
    lowest, highest = value_range
    if count < 2:
        raise ValueError(f"count is {count}: give at least two configs")
    if population < 1:
        raise ValueError(f"population is {population}: give the number of all items, at least 1")
    check_confidence(confidence)
    if look_every < 1:
        raise ValueError(f"look_every is {look_every}: give a number of items, at least 1")
    check_range(value_range)
    if not 0 <= margin < highest - lowest:
        raise ValueError(f"margin is {margin}: give 0 or more, in the scores' unit, below the width of value_range")
