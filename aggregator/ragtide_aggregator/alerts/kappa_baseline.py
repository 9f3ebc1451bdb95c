"""The normal kappa of a rule on the pairs of one key, and the items of a batch that it takes. No clock, no I/O.

Pairs of a score and a gold score come in the order in which they were joined. Two in a row are a couple, and each
couple is one bet of the e-detector that counts as two values (`statistics.kappa`, `statistics.drift`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import METRICS, AlertRule, Direction

from ..events.batch import EventBatch
from ..events.keys import EstimateKey
from ..statistics.drift.drift import Alarm
from ..statistics.drift.kappa import (
    Couple,
    CoupleSums,
    couple_of,
    disagreements,
    kappa_interval,
    kappa_of,
    limit_of,
    packed,
    scaled,
    unpacked,
)
from ..statistics.tables.batches import Floats, Rows
from .baseline import BASELINE_CONFIDENCE, AlarmDetail, AlarmFacts, OwnValuesBaseline, Place
from .contributors import Contributor, contenders
from .rule_values import Arrived, Inputs, LearnedValues, RuleValues
from .statistic import RuleDetector, Statistic

Bools = NDArray[np.bool_]


class WaitingItem(NamedTuple):
    """The first item of a couple whose second has not come."""

    judge: bool
    people: bool
    time_ms: int
    excess: float
    interaction_id: str


class GradedItems:
    """The items of a batch that count, after the item that waited. Items 2 i and 2 i + 1 are couple i.

    Of items of one session in a row the first counts, because the two of a couple must be independent.

    Args:
        batch: with pairs of a score and a gold score of the same interactions, both scaled to [0, 1].
        pairs: places of at least one, in the order of joining.
        clusters: code of the session of each; 0 for an interaction by itself.
        are_good: returns the verdicts of scaled scores.
        before: number of items before, without the one that waited.
        waiting: the item that waited; None without one.
        cluster: code of the session of the last pair before the batch.
        probabilities: the lowest and the highest probability of a gold score before the batch.
    """

    def __init__(
        self,
        batch: EventBatch,
        pairs: Rows,
        clusters: NDArray[np.int64],
        are_good: Callable[[Floats], Bools],
        *,
        before: int,
        waiting: WaitingItem | None,
        cluster: int,
        probabilities: tuple[float, float],
    ) -> None:
        earlier = np.concatenate([[cluster], clusters[:-1]])
        self.pairs = pairs[(clusters == 0) | (clusters != earlier)]
        """Place of the pair of each item of the batch."""
        gold, scores, drawn = batch.scores[:, self.pairs]
        # The first number is that before the batch.
        self._lowest = np.minimum.accumulate(np.concatenate([[probabilities[0]], drawn]))
        self._highest = np.maximum.accumulate(np.concatenate([[probabilities[1]], drawn]))
        self._judge, self._people = are_good(scores), are_good(gold)
        self._times_ms = batch.times_ms[batch.pairs_of[self.pairs]]
        self._excess = np.abs(scores - gold)
        self._batch, self._first, self._before = batch, waiting, before
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

    def _event_of(self, items: Rows) -> Rows:
        return np.asarray(self._batch.places[self._batch.pairs_of[self.pairs[items - self._waited]]])

    def interaction_id(self, item: int) -> str:
        """Return the id of an item's interaction."""
        if self._first is not None and item == 0:
            return self._first.interaction_id
        return self._batch.source.interaction_id(int(self._event_of(np.array([item]))[0]))

    def couples(self, row: int) -> "Couples":
        """Return the couples of the items, as values of a row; the last of an odd number is left out."""
        own, crossed = disagreements(self._judge, self._people)
        n = own.size
        numbers = self._before + 2 * np.arange(1, n + 1)
        return Couples(
            np.full(n, row), packed(own, crossed), self._times_ms[: 2 * n : 2], numbers,
            self._event_of(2 * np.arange(n) + 1), self._batch.source, np.zeros(n, dtype=np.intp), sizes=np.full(n, 2),
            items=self,
        )  # fmt: skip

    @property
    def seconds(self) -> Rows:
        """Place of the pair of the second item of each couple."""
        return np.asarray(self.pairs[2 * np.arange(len(self) // 2) + 1 - self._waited])

    def waiting(self) -> WaitingItem | None:
        """Return the item that waits for the second of its couple; None without one."""
        if len(self) % 2 == 0:
            return None
        last = len(self) - 1
        judge, people = bool(self._judge[last]), bool(self._people[last])
        time_ms, excess = int(self._times_ms[last]), float(self._excess[last])
        return WaitingItem(judge, people, time_ms, excess, self.interaction_id(last))

    def remembered(self, couples: Rows) -> Iterator[Contributor]:
        """Yield the items of couples whose verdicts differ, those with the largest difference of scores."""
        items = (2 * couples[:, None] + np.arange(2)).ravel()
        items = items[self._judge[items] != self._people[items]]
        for place in contenders(self._excess[items]).tolist():
            item = int(items[place])
            yield Contributor(self._before + item + 1, float(self._excess[item]), self.interaction_id(item))


@dataclass(frozen=True, slots=True)
class Couples(RuleValues):
    """Couples as values: both disagreements in one number. Each is a cluster of two, with the time of its first."""

    items: GradedItems = field(kw_only=True)

    def remembered(self, places: Rows, low: Any, high: Any) -> Iterator[Contributor]:
        """Yield the items of couples whose verdicts differ."""
        return self.items.remembered(places)


@dataclass(frozen=True, slots=True)
class KappaDetail(AlarmDetail):
    """The disagreements since a change."""

    explains_metric = False
    n: int
    """Number of items."""
    couple: Couple
    """Means over these."""
    mixed: bool
    """Whether gold scores were drawn with different probabilities."""

    @property
    def observed(self) -> tuple[float, float, float]:
        """Kappa and its interval."""
        return kappa_of(*self.couple), *kappa_interval(*self.couple, self.n)

    def notes(self, rule: AlertRule, key: EstimateKey) -> tuple[str, ...]:
        """Return what good is, and how often verdicts differ."""
        own, crossed = self.couple
        verdicts = (
            f"A score of {line_of(rule, key.value_range):g} or better is good; {own:.0%} of verdicts differ since the "
            f"change, and {crossed:.0%} would by chance."
        )
        return (verdicts, MIXED_GOLD_NOTE) if self.mixed else (verdicts,)


MIXED_GOLD_NOTE: Final = (
    "Interactions were drawn for gold scores with different probabilities, and the rule takes them without weights: a "
    "change of the drawing may move its kappa."
)


class KappaBaseline(OwnValuesBaseline):
    """The normal kappa, and what the next pairs need to know of those before.

    A value is a couple: both disagreements packed in one number.

    Attributes:
        is_known: whether it is given or learned.
    """

    stored = ("reference", "learned_n", "sums", "waiting", "cluster", "n", "probabilities")
    reference: float
    """Normal kappa: given, or the lower end of what was learned from `learned_n` items."""
    learned_n: int
    sums: CoupleSums
    waiting: WaitingItem | None
    """First item of a couple whose second has not come."""
    cluster: int
    """Code of the session of the last pair."""
    n: int
    """Number of items so far, with the one that waits."""
    probabilities: tuple[float, float]
    """Lowest and highest probability of a gold score."""
    mirrored = True

    def __init__(self, rule: AlertRule, key: EstimateKey) -> None:
        self._rule = rule
        lower, upper = key.value_range
        line = line_of(rule, (lower, upper))
        self._scaled_line = (line - lower) / (upper - lower)
        self._good_above = direction_of(key) is not Direction.LOWER
        reference = rule.reference
        self.is_known, self.reference = reference is not None, reference or 0.0
        self.learned_n, self.sums = 0, CoupleSums()
        self.waiting = None
        self.cluster, self.n = 0, 0
        self.probabilities = (1.0, 0.0)

    @property
    def statistics(self) -> list[Statistic]:
        """Kappa itself."""
        return [Statistic("kappa", 0.0, 1.0)]

    @property
    def learns(self) -> bool:
        """Whether couples are to be given to `learn`, one by one."""
        return not self.is_known

    @property
    def taken(self) -> int:
        """Number of items that couples have, without the one that waits."""
        return self.n - (self.waiting is not None)

    def take(self, row: int, batch: EventBatch, places: Rows, *, sessions: bool) -> Arrived:
        """Return the couples of pairs, at least one; an odd last item waits from now on."""
        before, clusters = self.taken, np.zeros(places.size, dtype=np.int64)
        if sessions and batch.clusters is not None:
            clusters = batch.clusters[batch.pairs_of[places]]
        self._items = items = GradedItems(
            batch,
            places,
            clusters,
            self._are_good,
            before=before,
            waiting=self.waiting,
            cluster=self.cluster,
            probabilities=self.probabilities,
        )
        self.n = before + len(items)
        self.cluster, self.probabilities = int(clusters[-1]), items.probabilities
        self.waiting = items.waiting()
        return Arrived(items.couples(row), items.seconds)

    def _are_good(self, scores: Floats) -> Bools:
        return scores >= self._scaled_line if self._good_above else scores <= self._scaled_line

    def learn(self, values: LearnedValues) -> bool:
        """Learn from a couple; return whether kappa is known from the next couple on."""
        self.sums.add(Couple(*(float(share) for share in couple_of(values.mean))))
        if 2 * self.sums.n < self._rule.learn_n:
            return False
        lowest = self.sums.lowest(BASELINE_CONFIDENCE)
        # No kappa is below -1. While the limit is there, learning continues.
        if lowest - self._rule.min_effect > -1:
            self.is_known, self.reference, self.learned_n = True, lowest, 2 * self.sums.n
        return self.is_known

    def limit(self, detector: RuleDetector, *, watching: bool) -> float:
        """Return the limit of couples, whose values rise when kappa falls."""
        return limit_of(detector.limit(self._rule, self.reference, watching=watching))

    def beyond(self, detectors: list[RuleDetector], positions: Rows | None = None) -> tuple[Any, Any]:
        """Return limits that every couple is beyond: its items are remembered if their verdicts differ."""
        return inf, -inf

    def inputs(self, detector: RuleDetector, batch: RuleValues, positions: Rows, *, watching: bool) -> Inputs:
        """Return couples, whose packed disagreements are the values of the batch, as a detector takes them."""
        values = batch.values[positions]
        own, crossed = couple_of(values)
        taken = scaled(own, crossed, detector.limit(self._rule, self.reference, watching=watching))
        # The mean of an alarm then has both disagreements.
        return Inputs(taken, centers=taken - values)

    def facts(self, detector: RuleDetector, alarm: Alarm, at: Place) -> AlarmFacts:
        """Return the facts of an alarm."""
        couple = unpacked(alarm.change_mean, alarm.change_n // 2)
        normal = kappa_of(self.sums.own, self.sums.crossed) if self.learned_n else None
        detail = KappaDetail(alarm.change_n, couple, self._items.mixed(2 * at.position + 1))
        return AlarmFacts(self.reference, self.learned_n, alarm.change_mean, normal, detail)


def line_of(rule: AlertRule, value_range: tuple[float, float]) -> float:
    """Return the score that separates good from bad: of the rule, or the band of the metric, or half of its range."""
    definition = METRICS.get(rule.metric)
    if rule.threshold is not None:
        return rule.threshold
    if definition is not None and definition.bands is not None:
        return definition.bands.good
    return sum(value_range) / 2


def direction_of(key: EstimateKey) -> Direction:
    """Return the direction in which the metric of a key gets better."""
    if key.measure is not None:
        return key.measure.direction
    definition = METRICS.get(key.metric)
    return Direction.NEITHER if definition is None else definition.direction
