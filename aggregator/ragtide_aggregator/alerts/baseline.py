"""The baselines that a rule compares values with, and the plain one: one number for all values. No clock, no I/O.

It is given by the rule, or learned from the first values of a key, or from a past window.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol

import numpy as np

from ragtide_schemas import AlertRule, Movement
from ragtide_schemas.alert_kinds import kind_of_rule
from ragtide_schemas.alert_rule import duration_ms

from ..events.batch import EventBatch
from ..events.keys import EstimateKey
from ..statistics.drift.drift import Alarm
from ..statistics.intervals.running import FIRST_GUESS, running_interval
from ..statistics.means.clustered_interval import clustered_interval
from ..statistics.means.clusters import ClusterSums
from ..statistics.tables.batches import Floats, Rows
from .rule_values import WAITS, Arrived, Inputs, LearnedValues, RuleValues
from .statistic import RuleDetector, Statistic, statistic_of
from .stored_form import LEFT_OUT, StoredForm, attributes_of

BASELINE_CONFIDENCE: Final = 0.95
"""Confidence that the true mean lies within the baseline."""

RELEARNED: Final = 1.1
"""Growth of the number of first answers after which their baseline is learned again."""

ANY_LIMIT: Final = 0.5
"""Limit of a detector whose values all come with their own."""


BaselineSource = Literal["given", "learned", "window", "target", "seasonal", "earlier"]


class Place(NamedTuple):
    """The value that decides an alarm."""

    number: int
    """Number of the value among the values of its key."""
    hour: int
    """Since 1970, in which it counts."""
    position: int
    """Among the values that the rules took last."""


class AlarmDetail:
    """What only one baseline knows of an alarm, for the alert."""

    __slots__ = ()

    source: ClassVar[BaselineSource | None] = None
    """Source of the baseline, where its rule does not say it."""
    explains_metric: ClassVar[bool] = True
    """Whether the meaning of the metric helps."""

    @property
    def normal_of(self) -> str | None:
        """What the normal value holds for, in words; None for all values."""
        return None

    @property
    def observed(self) -> tuple[float, float, float] | None:
        """The statistic since the change and the ends of its interval, where it is not the mean of values."""
        return None

    def notes(self, rule: AlertRule, key: EstimateKey) -> tuple[str, ...]:
        """Return assumptions and cautions, in sentences."""
        return ()

    def fields(self, *, firing: bool) -> dict[str, Any]:
        """Return further fields of the alert."""
        return {}


_NO_DETAIL: Final = AlarmDetail()


class AlarmFacts(NamedTuple):
    """What a baseline says about an alarm."""

    reference: float
    """The normal value, scaled: the lenient end of the baseline."""
    learned_n: int
    """Number of values from which it was learned; 0 for a given one."""
    mean: float
    """Mean of the values since the change."""
    normal: float | None = None
    """What was learned, scaled. None if nothing was learned: the reference is normal."""
    detail: AlarmDetail = _NO_DETAIL


class RuleBaseline(Protocol):
    """The baseline of one rule on one key: what is normal, and the limit of each value.

    Attributes:
        stored: names of the attributes that a checkpoint holds, in its order; the class declares their types.
        is_known: whether the rule has something to compare values with.
        statistics: that are compared.
        transforms: whether detectors take other values than those of a batch.
        mirrored: whether the values of a detector rise when its statistic falls.
    """

    stored: ClassVar[tuple[str, ...]] = ()
    is_known: bool = True
    transforms: bool = False
    mirrored: bool = False

    @property
    def statistics(self) -> list[Statistic]:
        """The statistics that are compared."""
        ...

    @property
    def learns(self) -> bool:
        """Whether values are to be given to `learn`, one by one."""
        return False

    def begin_batch(self) -> None:
        """Begin a batch, to whose values it will be applied."""
        return

    def learn(self, values: LearnedValues) -> bool:
        """Learn from a value or a cluster; return whether the baseline is known from the next value on."""
        return False

    def next_window(self, *, followed: bool) -> bool:
        """Begin a window; return whether the baseline is that of the window before now.

        Args:
            followed: whether the next window follows at once; after a gap the old baseline stays.
        """
        return False

    def limit(self, detector: RuleDetector, *, watching: bool) -> float:
        """Return the limit of values that have none of their own; outside of (0, 1) no mean can move beyond it."""
        return ANY_LIMIT

    def beyond(self, detectors: list[RuleDetector], positions: Rows | None = None) -> tuple[Any, Any]:
        """Return the scaled values below and above which interactions are remembered while a change is looked for.

        Args:
            positions: of values in the batch that was taken last, for limits of their own, nan for none; all values
                unless given.
        """
        ...

    def inputs(self, detector: RuleDetector, batch: RuleValues, positions: Rows, *, watching: bool) -> Inputs:
        """Return values of a batch as a detector takes them."""
        return Inputs(batch.values[positions])

    def settle(self, end: int) -> None:
        """Learn the values of a batch that detectors took, up to a position; forget the others."""
        return

    def confirms(self, alarm: Alarm) -> bool:
        """Return whether an alarm is of a change that matters; the values up to it are learned."""
        return True

    def fired(self, alarm: Alarm) -> None:
        """Take note of an alarm that fires an alert; the values up to it are learned."""
        return

    def facts(self, detector: RuleDetector, alarm: Alarm, at: Place) -> AlarmFacts:
        """Return the facts of an alarm."""
        ...

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        return {name: form.dump(getattr(self, name)) for name, form in self._forms().items()}

    def load(self, dumped: Mapping[str, Any], *, known: bool) -> None:
        """Set the state to what `dump` returned.

        Args:
            dumped: may hold more.
            known: whether the rule had something to compare values with.
        """
        for name, form in self._forms().items():
            setattr(self, name, form.read(dumped[name]))
        self.is_known = known

    @classmethod
    @cache
    def _forms(cls) -> dict[str, StoredForm]:
        return attributes_of(cls, cls.stored)


class OwnValuesBaseline(RuleBaseline):
    """The baseline of a rule that makes its values itself; the values of a batch are learned from and then compared.

    Attributes:
        taken: number of values so far.
    """

    transforms = True

    @property
    def taken(self) -> int:
        """Number of values so far."""
        raise NotImplementedError

    def take(self, row: int, batch: EventBatch, places: Rows, *, sessions: bool) -> Arrived | None:
        """Return values with the places that decide them; None without any.

        Args:
            batch: events.
            places: of pairs, or of parts, in the batch.
            sessions: whether clusters of the batch are sessions.
        """
        raise NotImplementedError

    def end_batch(self) -> None:
        """End a batch, whose values were compared."""


@dataclass(slots=True)
class ReferenceClusters:
    """The sums of the interval over clusters (`statistics.clusters`), from the first cluster of several values on."""

    below: float
    above: float
    largest_below: float = 1.0
    largest_above: float = 1.0

    def add(self, size: int, guess: float, squares: float) -> None:
        """Add a cluster with a prediction of its values, and the square of its distance from it."""
        self.below += size * guess * squares
        self.above += size * (1 - guess) * squares
        self.largest_below = max(self.largest_below, size * guess)
        self.largest_above = max(self.largest_above, size * (1 - guess))


@dataclass(slots=True)
class Reference:
    """Moments of values in [0, 1], with the intrinsic time of their running interval."""

    n: int = 0
    mean: float = 0.0
    v: float = 0.0
    clusters: ReferenceClusters | None = field(default=None, metadata=LEFT_OUT)
    """None while all values were single ones."""

    def add(self, mean: float, size: int = 1) -> None:
        """Add a value, or a cluster of `size` values with a mean."""
        guess = self.mean if self.n else FIRST_GUESS
        squares = (size * (mean - guess)) ** 2
        if size > 1 and self.clusters is None:
            # The bounds of single values before: their distances are at most 1 on either side.
            self.clusters = ReferenceClusters(self.v, self.v)
        if self.clusters is not None:
            self.clusters.add(size, guess, squares)
        self.v += squares
        self.n += size
        self.mean += size * (mean - self.mean) / self.n

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the ends for the mean; the whole range without a value."""
        if not self.n:
            return 0.0, 1.0
        if self.clusters is None:
            lower, upper = running_interval([self.mean], [self.n], [self.v], confidence=confidence)
        else:
            n, clusters = np.array([self.n]), self.clusters
            numbers = (self.v, clusters.below, clusters.above, clusters.largest_below, clusters.largest_above)
            sums = ClusterSums(n, n, n, np.array([self.mean]), *(np.array([number]) for number in numbers))
            lower, upper = clustered_interval(sums, confidence=confidence)
        return float(lower[0]), float(upper[0])


@dataclass(slots=True)
class Learner:
    """Learns the mean of values, and for a rule on their distribution the spread about the mean of the first half.

    The centre must be known before distances from it can be learned.
    """

    mean: Reference = field(default_factory=Reference)
    center: float | None = None
    squares: Reference = field(default_factory=Reference)

    def add(self, values: LearnedValues, rule: AlertRule) -> None:
        """Add a value, or a cluster of values."""
        if kind_of_rule(rule).has_spread and self.center is None and 2 * self.mean.n >= rule.learn_n:
            self.center = self.mean.mean
        if self.center is not None:
            if values.size == 1:
                square = (values.mean - self.center) ** 2
            else:
                square = max(values.mean_square - 2 * self.center * values.mean + self.center**2, 0.0)
            self.squares.add(square / max(self.center, 1 - self.center) ** 2, values.size)
        self.mean.add(values.mean, values.size)

    def learned(self, rule: AlertRule) -> "Baseline":
        """Return the baseline learned so far."""
        has_spread = kind_of_rule(rule).has_spread
        confidence = 1 - (1 - BASELINE_CONFIDENCE) / (2 if has_spread else 1)
        spread = self.squares.interval(confidence) if has_spread else None
        return Baseline(
            self.mean.interval(confidence), self.center, spread, self.mean.n, (self.mean.mean, self.squares.mean)
        )


class Baseline(NamedTuple):
    """The normal range of a statistic, scaled to [0, 1]: ends of the mean, and of the spread about a centre."""

    mean: tuple[float, float]
    center: float | None = None
    spread: tuple[float, float] | None = None
    n: int = 0
    """Number of values that it was learned from; 0 for a given baseline."""
    learned: tuple[float, float] | None = None
    """The learned mean, and the learned spread about the centre; None for a given baseline."""


class FixedBaseline(RuleBaseline):
    """One baseline for all values: of the rule, of the first values, or of the last window.

    Args:
        rule: the rule.
        value_range: lowest and highest value.
        movements: directions of a bad change.
        reference: number that the rule gives, in the unit of the statistic; None to learn it.

    Attributes:
        is_known: whether a baseline is given or learned.
        window_ms: length of the past window from which it is taken; None without such a window.
    """

    stored = ("baseline", "learner")
    baseline: Baseline
    """The whole range while none is known."""
    learner: Learner | None
    """Of the next baseline; None where no value is learned from."""

    def __init__(
        self,
        rule: AlertRule,
        value_range: tuple[float, float],
        movements: tuple[Movement, ...],
        reference: float | None,
    ) -> None:
        self._rule, self._range, self._movements, self._given_reference = rule, value_range, movements, reference
        self.window_ms = None if rule.baseline_window is None else duration_ms(rule.baseline_window)
        self.learner = Learner()
        given = self._given()
        self.is_known, self.baseline = given is not None, given or Baseline((0.0, 1.0))
        self.transforms = kind_of_rule(rule).has_spread
        self._end_learning()

    def _end_learning(self) -> None:
        if not self.learns:
            self.learner = None

    def _given(self) -> Baseline | None:
        rule, reference = self._rule, self._given_reference
        if reference is None:
            return None
        mean = statistic_of(rule, self._range).scaled(reference)
        if rule.baseline_spread is None:
            return Baseline((mean, mean))
        spread = statistic_of(rule, self._range, center=mean).scaled(rule.baseline_spread)
        return Baseline((mean, mean), mean, (spread, spread))

    @property
    def learns(self) -> bool:
        """Whether single values are to be given to `learn`."""
        return not self.is_known or self.window_ms is not None

    @property
    def statistics(self) -> list[Statistic]:
        """The mean, and the spread about the centre for a rule on the distribution."""
        return self._statistics(self.baseline)

    def _statistics(self, baseline: Baseline) -> list[Statistic]:
        mean = statistic_of(self._rule, self._range)
        if not kind_of_rule(self._rule).has_spread:
            return [mean]
        return [mean, statistic_of(self._rule, self._range, center=baseline.center or 0.0)]

    def learn(self, values: LearnedValues) -> bool:
        """Learn from a value or a cluster; return whether the baseline is known from the next value on."""
        learner = self._learn(values)
        if self.is_known or self.window_ms is not None or learner.mean.n < self._rule.learn_n:
            return False
        baseline = learner.learned(self._rule)
        # No mean can move beyond an end of the range. While the interval still reaches it, learning continues, because
        # the interval is valid at every n.
        self.is_known = any(
            0 < self._limit(RuleDetector(0, movement, statistic), baseline, watching=True) < 1
            for statistic in self._statistics(baseline)
            for movement in self._movements
        )
        if self.is_known:
            self.baseline = baseline
            self._end_learning()
        return self.is_known

    def _learn(self, values: LearnedValues) -> Learner:
        self.learner = self.learner or Learner()
        self.learner.add(values, self._rule)
        return self.learner

    def next_window(self, *, followed: bool) -> bool:
        """Take the baseline from the window that ends, if it had enough values, and begin the next window."""
        learner, self.learner = self.learner, Learner()
        if not followed or learner is None or learner.mean.n < self._rule.learn_n:
            return False
        self.baseline, self.is_known = learner.learned(self._rule), True
        return True

    @staticmethod
    def _of_spread(detector: RuleDetector, baseline: Baseline) -> bool:
        return detector.statistic.name == "spread" and baseline.spread is not None

    def _reference(self, detector: RuleDetector, baseline: Baseline) -> float:
        ends = baseline.spread if self._of_spread(detector, baseline) else baseline.mean
        return ends[0] if detector.movement == "fall" else ends[1]  # type: ignore[index]

    def _limit(self, detector: RuleDetector, baseline: Baseline, *, watching: bool) -> float:
        return detector.limit(self._rule, self._reference(detector, baseline), watching=watching)

    def limit(self, detector: RuleDetector, *, watching: bool) -> float:
        """Return the limit of all values."""
        return self._limit(detector, self.baseline, watching=watching)

    def beyond(self, detectors: list[RuleDetector], positions: Rows | None = None) -> tuple[Any, Any]:
        """Return the limits of the mean."""
        low, high = -1.0, 2.0
        for detector in detectors:
            if detector.active and detector.statistic.name != "spread":
                limit = self.limit(detector, watching=True)
                low, high = (limit, high) if detector.movement == "fall" else (low, limit)
        return low, high

    def inputs(self, detector: RuleDetector, batch: RuleValues, positions: Rows, *, watching: bool) -> Inputs:
        """Return values, or their squared distances from the centre."""
        squares = None if batch.mean_squares is None else batch.mean_squares[positions]
        return Inputs(detector.statistic.transformed(batch.values[positions], squares))

    def facts(self, detector: RuleDetector, alarm: Alarm, at: Place) -> AlarmFacts:
        """Return the facts of an alarm."""
        return self._facts(detector, alarm, self.baseline)

    def _facts(self, detector: RuleDetector, alarm: Alarm, baseline: Baseline) -> AlarmFacts:
        normal = None if baseline.learned is None else baseline.learned[self._of_spread(detector, baseline)]
        return AlarmFacts(self._reference(detector, baseline), baseline.n, alarm.change_mean, normal)


class FirstAnswerBaseline(FixedBaseline):
    """The baseline of the first answers of sessions, which may have another mean than later answers.

    It is learned from first answers. A rule with a target or a given baseline promises something about the mean of all
    answers, so its first answers are compared with that mean, or with the lenient end of their own if that is worse.
    That end comes nearer to their mean with more first answers, so it is learned again whenever their number has grown
    by a tenth. An answer is compared with what earlier answers gave.
    """

    def __init__(
        self,
        rule: AlertRule,
        value_range: tuple[float, float],
        movements: tuple[Movement, ...],
        reference: float | None,
    ) -> None:
        self._bound: Baseline | None = None
        super().__init__(rule, value_range, movements, reference)
        self.transforms = self.transforms or self._bound is not None
        # Of the present batch: what was known before it, and what was learned at positions in it.
        self._before, self._learned = self.baseline, list[tuple[int, Baseline]]()

    def _given(self) -> Baseline | None:
        self._bound = super()._given()
        if self._bound is not None and self.learner is not None:
            # Spreads can be compared about one centre only.
            self.learner.center = self._bound.center
        return None

    @property
    def learns(self) -> bool:
        """Whether single values are to be given to `learn`."""
        return self._bound is not None or super().learns

    def begin_batch(self) -> None:
        """Begin a batch: positions in it count from 0."""
        self._before, self._learned = self.baseline, []

    def learn(self, values: LearnedValues) -> bool:
        """Learn from a first answer; return whether the baseline is known from the next one on."""
        if self.is_known and self._bound is not None:
            learner = self._learn(values)
            if learner.mean.n >= RELEARNED * self.baseline.n:
                learned, ends, spread = learner.learned(self._rule), self.baseline.mean, self.baseline.spread
                mean = max(ends[0], learned.mean[0]), min(ends[1], learned.mean[1])
                if spread is not None and learned.spread is not None:
                    spread = max(spread[0], learned.spread[0]), min(spread[1], learned.spread[1])
                self.baseline = learned._replace(mean=mean, spread=spread)
                self._learned.append((values.position, self.baseline))
            return False
        known = super().learn(values)
        if known:
            self._learned.append((values.position, self.baseline))
        return known

    def _at(self, positions: Rows) -> tuple[list[Baseline], Rows]:
        known = np.searchsorted([position for position, _ in self._learned], positions, side="left")
        return [self._before, *(baseline for _, baseline in self._learned)], known

    def _limits(self, detector: RuleDetector, positions: Rows, *, watching: bool) -> Floats:
        baselines, which = self._at(positions)
        limits = np.array([self._limit(detector, baseline, watching=watching) for baseline in baselines])
        return np.where((limits > 0) & (limits < 1), limits, WAITS)[which]

    def _reference(self, detector: RuleDetector, baseline: Baseline) -> float:
        learned = super()._reference(detector, baseline)
        if self._bound is None:
            return learned
        lenient = min if detector.movement == "fall" else max
        return lenient(learned, super()._reference(detector, self._bound))

    def limit(self, detector: RuleDetector, *, watching: bool) -> float:
        """Return the limit of all values; with a target or a given baseline each value has its own."""
        return self._limit(detector, self.baseline if self._bound is None else self._bound, watching=watching)

    def beyond(self, detectors: list[RuleDetector], positions: Rows | None = None) -> tuple[Any, Any]:
        """Return the limits of the mean: the least lenient ones unless there are positions."""
        if positions is None or self._bound is None:
            return super().beyond(detectors, positions)
        low, high = np.full((2, positions.size), np.nan)
        for detector in detectors:
            if detector.active and detector.statistic.name != "spread":
                limits = self._limits(detector, positions, watching=True)
                limits = np.where(limits == WAITS, np.nan, limits)
                low, high = (limits, high) if detector.movement == "fall" else (low, limits)
        return low, high

    def inputs(self, detector: RuleDetector, batch: RuleValues, positions: Rows, *, watching: bool) -> Inputs:
        """Return values with their own limits, if the rule has a target or a given baseline."""
        inputs = super().inputs(detector, batch, positions, watching=watching)
        if self._bound is None:
            return inputs
        return inputs._replace(limits=self._limits(detector, positions, watching=watching))

    def facts(self, detector: RuleDetector, alarm: Alarm, at: Place) -> AlarmFacts:
        """Return the facts of an alarm; a baseline that the rule gives was learned from no value."""
        if self._bound is None:
            return super().facts(detector, alarm, at)
        baselines, (which,) = self._at(np.array([at.position]))
        reference = self._reference(detector, baselines[which])
        own = reference != super()._reference(detector, self._bound)
        if not own:
            return AlarmFacts(reference, 0, alarm.change_mean)
        return self._facts(detector, alarm, baselines[which])

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it, with whether a baseline is known."""
        return super().dump() | {"known": self.is_known}

    def load(self, dumped: Mapping[str, Any], *, known: bool) -> None:
        """Set the state to what `dump` returned."""
        super().load(dumped, known=dumped["known"])
        self.begin_batch()
