"""The baselines of a rule that holds the mix of a segment fixed: one for each segment value. No clock, no I/O.

A value x of segment value s is compared with the limit l(s) of s. A bet pays 1 + k (l(s) - x), where k depends on s and
on the past alone. While each segment value keeps its limit, no bet pays more than 1 on average, whatever the shares of
the segment values are (`statistics.adjusted_drift`). So the rule keeps its run length for any mix. The detectors take
all values on one scale (`CommonScale`), which depends on the limits that are known before the value. A cluster of n
values with sum n(s) l(s) / n as its limit has the same property, because its composition is known before its mean.

Bets with a scale of their own for each segment value, k = stake / (1 - l(s)), have the run length too, but the segment
values with high limits then bet so much that a fall in one with a low limit is hidden by their noise.

A baseline is learned as that of any rule: from the first values of its segment value, at least `learn_n` of them. Its
lenient end bounds the mean with an error of alpha / (j (j + 1)) for the j-th segment value in the order of first
appearance. These shares add up to at most alpha = 5%, so all baselines hold together with 95% confidence.

Assumes: the segment value of an interaction is known before its score, and is chosen neither by it nor by the scores
of its cluster.
"""

from dataclasses import dataclass, field
from math import fsum
from typing import Any, Final

import numpy as np

from ragtide_schemas import AlertRule, Movement
from ragtide_schemas.alert_rule import ADJUSTED_MAX

from ..events.keys import EstimateKey
from ..statistics.drift.adjusted_drift import CommonScale
from ..statistics.drift.drift import Alarm
from ..statistics.tables.batches import Floats, Rows
from .baseline import BASELINE_CONFIDENCE, AlarmDetail, AlarmFacts, Place, Reference, RuleBaseline
from .rule_values import WAITS, Inputs, RuleValues, SegmentsWithin
from .statistic import RuleDetector, Statistic, statistic_of
from .stored_form import InOrder

OTHER: Final = "other"
"""The segment value in which further values share a baseline."""

_ROUNDING: Final = 1e-12
"""Largest error by rounding of a limit."""

NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class AdjustedMean(AlarmDetail):
    """The mean of the baselines of all segment values with one, by their shares of the values so far."""

    segment: str
    """Name of the segment."""
    reference: float
    """Scaled mean of the lenient ends."""
    normal: float
    """Scaled mean of what was learned or given, by the same shares."""
    values: int
    """Number of segment values."""
    learned_n: int
    """Number of values that the baselines were learned from; 0 if they are given."""

    @property
    def normal_of(self) -> str:
        """The segment values in words."""
        return f"{self.values} value{'' if self.values == 1 else 's'} of {self.segment} (each with its own mean)"

    def notes(self, rule: AlertRule, key: EstimateKey) -> tuple[str, ...]:
        """Return what is compared."""
        return (
            f"The mix of {self.segment} is held fixed: each answer is compared with those of the same {self.segment}.",
        )


@dataclass(slots=True)
class SegmentBaseline(InOrder):
    """The baseline of one segment value."""

    learned: Reference = field(default_factory=Reference)
    """The values that it is learned from; nothing if it is given."""
    ends: tuple[float, float] | None = None
    """The normal mean, scaled: the ends of its interval. None while it is not known."""
    n: int = 0
    """Number of values that the rule's key has of the segment value."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The part of a batch that was taken last: its values, and the segment values in them."""

    positions: Rows
    """Position of each value in the batch, rising."""
    ends: Floats
    """Lower and upper ends of the baseline of each; nan where a segment value has none. Shape (2, values)."""
    of: Rows
    """Index of the value of each segment value within; not falling. So are the next two."""
    slots: Rows
    """Place of the segment value among the baselines; -1 without one."""
    sizes: Rows
    before: Rows
    """Number of values of each baseline before."""
    known_after: Rows
    """Index of the value after which each baseline is known; -1 if before."""


_NO_ROWS: Final = np.zeros(0, dtype=np.intp)
_NOTHING: Final = _Stretch(_NO_ROWS, np.zeros((2, 0)), _NO_ROWS, _NO_ROWS, _NO_ROWS, _NO_ROWS, _NO_ROWS)


class AdjustedBaseline(RuleBaseline):
    """The baselines of all segment values of one rule on one key.

    A rule looks for a change from the beginning, without the values of segment values of which too little is known.

    Attributes:
        segment: name of the segment.
    """

    stored = ("adjusted",)
    adjusted: dict[str, SegmentBaseline]
    """Baselines by segment value, in the order of their first appearance."""
    transforms = True

    def __init__(self, rule: AlertRule, value_range: tuple[float, float], movements: tuple[Movement, ...]) -> None:
        self.segment = rule.adjust or ""
        self._rule, self._movements = rule, movements
        self._statistic = statistic = statistic_of(rule, value_range)
        self.adjusted = {}
        for value, mean in (rule.baselines or {}).items():
            scaled = statistic.scaled(mean)
            self.adjusted[value] = SegmentBaseline(ends=(scaled, scaled))
        self._stretch = _NOTHING

    @property
    def statistics(self) -> list[Statistic]:
        """The statistic that is compared."""
        return [self._statistic]

    def take(self, positions: Rows, totals: Rows, values: list[str], which: Rows, within: SegmentsWithin) -> bool:
        """Count values, learn from them, and set the baselines of each; return whether a baseline became known.

        A value is compared only with baselines that are known from earlier values.

        Args:
            totals: number of interactions of each value: 1, or the size of a cluster.
            values: distinct segment values.
            which: the segment value, by its place in `values`, of each entry of `within`.
            within: segment values of these values; `of` is the index among `positions`.
        """
        slot_of = np.full(len(values), -1, dtype=np.intp)
        _, first = np.unique(which, return_index=True)
        for entry in np.sort(first).tolist():
            slot_of[which[entry]] = self._slot(values[which[entry]])
        slots, baselines = slot_of[which], list(self.adjusted.values())
        known_after = np.array([NEVER if baseline.ends is None else -1 for baseline in baselines], dtype=np.int64)
        before = np.array([baseline.n for baseline in baselines], dtype=np.int64)
        has = slots >= 0
        for entry in np.flatnonzero(has & (known_after[np.maximum(slots, 0)] == NEVER) if baselines else has).tolist():
            slot = int(slots[entry])
            if known_after[slot] == NEVER and self._learn(
                baselines[slot], slot, float(within.values[entry]), int(within.sizes[entry])
            ):
                known_after[slot] = within.of[entry]
        added = np.bincount(slots[has], weights=within.sizes[has], minlength=len(baselines)).astype(np.int64)
        for baseline, n in zip(baselines, added.tolist(), strict=True):
            baseline.n += n
        ends = self._ends(baselines, known_after, slots, within, totals)
        self._stretch = _Stretch(positions, ends, within.of, slots, within.sizes, before, known_after)
        return bool(np.any((known_after >= 0) & (known_after != NEVER)))

    def _slot(self, value: str) -> int:
        if value not in self.adjusted:
            if self._rule.baselines is not None:
                return -1
            # The last place is that of `other`.
            if len(self.adjusted) - (OTHER in self.adjusted) >= ADJUSTED_MAX - 1:
                value = OTHER
            self.adjusted.setdefault(value, SegmentBaseline())
        return list(self.adjusted).index(value)

    def _learn(self, baseline: SegmentBaseline, slot: int, mean: float, size: int) -> bool:
        baseline.learned.add(mean, size)
        around = (baseline.learned.mean, baseline.learned.mean)
        # An interval takes long, and its limit is further out than that of the mean.
        if baseline.learned.n < self._rule.learn_n or not self._has_limit(around):
            return False
        ends = baseline.learned.interval(1 - (1 - BASELINE_CONFIDENCE) / ((slot + 1) * (slot + 2)))
        # No mean can move beyond an end of the range. While the interval still reaches it, learning continues.
        if not self._has_limit(ends):
            return False
        baseline.ends = ends
        return True

    def _has_limit(self, ends: tuple[float, float]) -> bool:
        return any(
            self.limits(way, np.array([ends[0] if way == "fall" else ends[1]]), watching=True)[0] != WAITS
            for way in self._movements
        )

    @staticmethod
    def _ends(
        baselines: list[SegmentBaseline], known_after: Rows, slots: Rows, within: SegmentsWithin, totals: Rows
    ) -> Floats:
        ends = np.full((2, totals.size), np.nan)
        if not baselines:
            return ends
        known = (slots >= 0) & (within.of > known_after[slots])
        sizes = np.where(known, within.sizes, 0)
        # Each is a sum in the order of the entries, so that cuts into batches change no bit.
        whole = np.bincount(within.of, weights=sizes, minlength=totals.size) == totals
        for side in (0, 1):
            of_entries = np.array([0.0 if baseline.ends is None else baseline.ends[side] for baseline in baselines])[
                slots
            ]
            sums = np.bincount(within.of, weights=sizes * of_entries, minlength=totals.size)
            ends[side, whole] = sums[whole] / totals[whole]
        return ends

    def references(self, movement: Movement, positions: Rows) -> Floats:
        """Return the lenient ends of the baselines of values of the batch that was taken last; nan for unknown ones."""
        stretch = self._stretch
        return np.asarray(stretch.ends[0 if movement == "fall" else 1][np.searchsorted(stretch.positions, positions)])

    def limits(self, movement: Movement, references: Floats, *, watching: bool) -> Floats:
        """Return the limits for references; `WAITS` for those without one.

        Args:
            movement: that the rule looks for.
            references: lenient ends, scaled, or nan.
            watching: whether a change is looked for, and not its end.
        """
        way = -1.0 if movement == "fall" else 1.0
        limits = references + way * self._rule.min_effect / self._statistic.width
        usable = (limits > 0) & (limits < 1)
        if not watching:
            limits = limits - way * self._rule.hysteresis / self._statistic.width
            # The limit stays inside the range, so that a mean can lie beyond it.
            inside = (references + way * self._rule.min_effect / self._statistic.width + (movement == "fall")) / 2
            limits = np.minimum(limits, inside) if movement == "fall" else np.maximum(limits, inside)
        return np.where(usable, limits, WAITS)

    def scales(self, movement: Movement, positions: Rows, *, watching: bool) -> Floats:
        """Return the lowest and the highest limit known before each value of the batch that was taken last.

        Returns:
            Shape (2, values); nan before any limit is known.
        """
        stretch, side = self._stretch, 0 if movement == "fall" else 1
        ends = np.array(
            [np.nan if baseline.ends is None else baseline.ends[side] for baseline in self.adjusted.values()]
        )
        limits = self.limits(movement, ends, watching=watching)
        usable = limits != WAITS
        limits, after = limits[usable], stretch.known_after[usable]
        order = np.argsort(after, kind="stable")
        lowest, highest = np.minimum.accumulate(limits[order]), np.maximum.accumulate(limits[order])
        known = np.searchsorted(after[order], np.searchsorted(stretch.positions, positions))
        ranges = np.concatenate([[[np.nan], [np.nan]], np.stack([lowest, highest])], axis=1)
        return np.asarray(ranges[:, known])

    def inputs(self, detector: RuleDetector, batch: RuleValues, positions: Rows, *, watching: bool) -> Inputs:
        """Return values of the batch that was taken last, on one scale for all segment values."""
        values, movement = batch.values[positions], detector.movement
        references = self.references(movement, positions)
        own = self.limits(movement, references, watching=watching)
        lowest, highest = self.scales(movement, positions, watching=watching)
        # A cluster may have segment values without a limit, so that the mean of its limits is below all limits.
        usable = (own != WAITS) & (own >= lowest - _ROUNDING) & (own <= highest + _ROUNDING)
        scale = CommonScale.of(lowest, highest)
        on_scale = scale.values(values, own)
        # An alarm has distances from the baselines.
        return Inputs(on_scale, np.where(usable, scale.limit, WAITS), on_scale - (values - references))

    def beyond(self, detectors: list[RuleDetector], positions: Rows | None = None) -> tuple[Any, Any]:
        """Return the limits of values, nan for none; or the least lenient limits of all segment values."""
        low, high = (-1.0, 2.0) if positions is None else np.full((2, positions.size), np.nan)
        for movement in (detector.movement for detector in detectors if detector.active):
            if positions is None:
                side = 0 if movement == "fall" else 1
                ends = np.array(
                    [baseline.ends[side] for baseline in self.adjusted.values() if baseline.ends is not None]
                )
                known = self.limits(movement, ends, watching=True)
                known = known[known != WAITS]
                limits: Any = (known.max() if movement == "fall" else known.min()) if known.size else None
            else:
                limits = self.limits(movement, self.references(movement, positions), watching=True)
                limits = np.where(limits > 0, limits, np.nan)
            if limits is not None:
                low, high = (limits, high) if movement == "fall" else (low, limits)
        return low, high

    def facts(self, detector: RuleDetector, alarm: Alarm, at: Place) -> AlarmFacts:
        """Return the facts of an alarm, whose mean is the distance from the references."""
        adjusted = self.summary(detector.movement, at.position)
        mean = alarm.change_mean + adjusted.reference
        return AlarmFacts(adjusted.reference, adjusted.learned_n, mean, adjusted.normal, adjusted)

    def summary(self, movement: Movement, position: int) -> AdjustedMean:
        """Return the mean of the baselines as of a value of the batch that was taken last."""
        stretch, side = self._stretch, 0 if movement == "fall" else 1
        at = int(np.searchsorted(stretch.positions, position))
        now = (stretch.of <= at) & (stretch.slots >= 0)
        n = stretch.before + np.bincount(
            stretch.slots[now], weights=stretch.sizes[now], minlength=stretch.before.size
        ).astype(np.int64)
        baselines = zip(self.adjusted.values(), n.tolist(), stretch.known_after.tolist(), strict=True)
        known = [
            (baseline, count)
            for baseline, count, after in baselines
            if after < at and baseline.ends is not None and count
        ]
        weighted = fsum(count * baseline.ends[side] for baseline, count in known if baseline.ends is not None)
        normal = fsum(
            count * (baseline.learned.mean if baseline.learned.n else baseline.ends[side])
            for baseline, count in known
            if baseline.ends is not None
        )
        total = sum(count for _, count in known)
        return AdjustedMean(
            self.segment,
            weighted / total,
            normal / total,
            len(known),
            sum(baseline.learned.n for baseline, _ in known),
        )
