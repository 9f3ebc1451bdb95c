"""The interactions of a batch that a rule on kappa takes, with verdicts of judge and people. No state."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..events.batch import EventSource
from ..statistics.drift.kappa import disagreements
from ..statistics.tables.batches import Floats, Rows

Bools = NDArray[np.bool_]


class JoinedPairs(NamedTuple):
    """Scores and gold scores of the same interactions, both scaled to [0, 1], in the order of joining; shape (n,)."""

    scores: Floats
    gold: Floats
    probabilities: Floats
    """Probability with which each was drawn for a gold score, of all traffic."""
    times_ms: Rows
    clusters: NDArray[np.int64]
    """Code of the session of each; 0 for an interaction by itself."""
    places: Rows
    """Place of each one's event in the source."""
    source: EventSource


class WaitingItem(NamedTuple):
    """The first item of a couple whose second has not come."""

    judge: bool
    people: bool
    time_ms: int
    excess: float
    interaction_id: str


class Couples(NamedTuple):
    """Couples in their order; shape (n,)."""

    own: Floats
    crossed: Floats
    times_ms: Rows
    """Time of the first of the two."""

    def part(self, start: int) -> "Couples":
        """Return the couples from a number on."""
        return Couples(self.own[start:], self.crossed[start:], self.times_ms[start:])


class GradedItems:
    """The items of a batch that count, after the item that waited. Items 2 i and 2 i + 1 are couple i.

    Of items of one session in a row the first counts, because the two of a couple must be independent.

    Args:
        pairs: of the batch, at least one.
        are_good: returns the verdicts of scaled scores.
        waiting: the item that waited; None without one.
        cluster: code of the session of the last pair before the batch.
        probabilities: the lowest and the highest probability of a gold score before the batch.
    """

    def __init__(
        self,
        pairs: JoinedPairs,
        are_good: Callable[[Floats], Bools],
        waiting: WaitingItem | None,
        cluster: int,
        probabilities: tuple[float, float],
    ) -> None:
        before = np.concatenate([[cluster], pairs.clusters[:-1]])
        positions = np.flatnonzero((pairs.clusters == 0) | (pairs.clusters != before))
        drawn = pairs.probabilities[positions]
        # The first number is that before the batch.
        self._lowest = np.minimum.accumulate(np.concatenate([[probabilities[0]], drawn]))
        self._highest = np.maximum.accumulate(np.concatenate([[probabilities[1]], drawn]))
        self._judge, self._people = are_good(pairs.scores[positions]), are_good(pairs.gold[positions])
        self._times_ms = pairs.times_ms[positions]
        self._excess = np.abs(pairs.scores - pairs.gold)[positions]
        self._pairs, self._positions, self._first = pairs, positions, waiting
        if waiting is not None:
            self._judge = np.concatenate([[waiting.judge], self._judge])
            self._people = np.concatenate([[waiting.people], self._people])
            self._times_ms = np.concatenate([[waiting.time_ms], self._times_ms])
            self._excess = np.concatenate([[waiting.excess], self._excess])

    def __len__(self) -> int:
        return self._judge.size

    @property
    def _waited(self) -> int:
        return 0 if self._first is None else 1

    @property
    def probabilities(self) -> tuple[float, float]:
        """The lowest and the highest probability of a gold score so far."""
        return float(self._lowest[-1]), float(self._highest[-1])

    def mixed(self, item: int) -> bool:
        """Return whether gold scores up to an item of the batch were drawn with different probabilities."""
        at = item - self._waited + 1
        return bool(self._lowest[at] < self._highest[at])

    def position(self, item: int) -> int:
        """Return the position of an item of the batch among its pairs."""
        return int(self._positions[item - self._waited])

    def interaction_id(self, item: int) -> str:
        """Return the id of an item's interaction."""
        if self._first is not None and item == 0:
            return self._first.interaction_id
        return self._pairs.source.interaction_id(int(self._pairs.places[self.position(item)]))

    def couples(self) -> Couples:
        """Return the couples of the items; the last of an odd number is left out."""
        own, crossed = disagreements(self._judge, self._people)
        return Couples(own, crossed, self._times_ms[: 2 * own.size : 2])

    def waiting(self) -> WaitingItem | None:
        """Return the item that waits for the second of its couple; None without one."""
        if len(self) % 2 == 0:
            return None
        last = len(self) - 1
        judge, people = bool(self._judge[last]), bool(self._people[last])
        time_ms, excess = int(self._times_ms[last]), float(self._excess[last])
        return WaitingItem(judge, people, time_ms, excess, self.interaction_id(last))

    def differing(self, start: int, stop: int) -> tuple[Rows, Floats]:
        """Return the items from one up to another (exclusive) whose verdicts differ, and by how much scores do."""
        items = np.arange(start, stop)
        items = items[self._judge[items] != self._people[items]]
        return items, self._excess[items]
