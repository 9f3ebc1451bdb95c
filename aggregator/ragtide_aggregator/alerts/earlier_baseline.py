"""The baseline of a rule that compares each value with all earlier ones, by ranks (`statistics.drift.ranks`). No clock.

Values are not learned while an alert fires, so that a long fault does not become normal.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ragtide_schemas import AlertRule

from ..statistics.drift.drift import Alarm
from ..statistics.drift.ranks import LEAST, Bins, EarlierValues, bins_of
from ..statistics.tables.batches import Floats, Rows
from .baseline import ANY_LIMIT, AlarmDetail, AlarmFacts, Place, RuleBaseline
from .rule_values import WAITS, Inputs, LearnedValues, RuleValues
from .statistic import RuleDetector, Statistic, statistic_of

BACK: Final = 1 / 3
"""Part of a change that may stay when its alert resolves."""


class _AllBefore(AlarmDetail):
    source = "earlier"


class _Taken(NamedTuple):
    """Values of a batch that detectors have compared, and that are not added yet."""

    positions: Rows
    bins: Bins
    means: Floats
    sizes: Rows


class EarlierBaseline(RuleBaseline):
    """All values before each value; the first `LEAST` are only learned.

    What is learned does not depend on where a batch ends: the values of a batch are added one stretch after the other,
    as far as detectors took them.

    Attributes:
        values: the values, or means of clusters, so far.
        n: number of single values so far.
        total: sum of these values.
        cut: mean of the first values; interactions beyond it are remembered. None while it is not known.
        before: mean of the values before the change of the alert that fired last, and their number.
        since: mean of the values since that change.
    """

    transforms = True

    def __init__(self, rule: AlertRule, value_range: tuple[float, float]) -> None:
        self._rule, self._statistic = rule, statistic_of(rule, value_range)
        self.values = EarlierValues()
        self.n, self.total = 0, 0.0
        self.cut: float | None = None
        self.before: tuple[float, int] | None = None
        self.since = 0.0
        self._taken: _Taken | None = None
        self.is_known = False
        self._step = self._statistic.moved(0.0, rule.min_effect)

    @property
    def statistics(self) -> list[Statistic]:
        """The mean."""
        return [self._statistic]

    @property
    def learns(self) -> bool:
        """Whether values are to be given to `learn`, one by one."""
        return not self.is_known

    def learn(self, values: LearnedValues) -> bool:
        """Learn one of the first values; return whether values are compared from the next one on."""
        self._add(bins_of(np.array([values.mean])), np.array([values.mean]), np.array([values.size]))
        if self.values.n < LEAST:
            return False
        self.is_known, self.cut = True, self.total / self.n
        return True

    def _add(self, bins: Bins, means: Floats, sizes: Rows) -> None:
        self.values.add(bins)
        for mean, size in zip(means.tolist(), sizes.tolist(), strict=True):
            self.n += size
            self.total += size * mean

    def settle(self, end: int | None = None) -> None:
        """Add the values that detectors have compared, up to a position of the batch; forget the others."""
        taken, self._taken = self._taken, None
        if taken is None:
            return
        inside = slice(None) if end is None else slice(int(np.searchsorted(taken.positions, end)))
        if taken.positions[inside].size:
            self._add(taken.bins[inside], taken.means[inside], taken.sizes[inside])

    def inputs(self, detector: RuleDetector, batch: RuleValues, positions: Rows, *, watching: bool) -> Inputs:
        """Return the ranks of values among all earlier ones, or the values themselves while an alert fires."""
        means = batch.values[positions]
        if not watching:
            return Inputs(means)
        self.settle(int(positions[0]))
        bins = bins_of(means)
        sizes = np.ones(positions.size, dtype=np.intp) if batch.sizes is None else batch.sizes[positions]
        self._taken = _Taken(positions, bins, means, sizes)
        ranked = self.values.ranked(bins, detector.movement, self._step)
        waits = (ranked.limits <= 0) | (ranked.limits >= 1)
        return Inputs(ranked.ranks, np.where(waits, WAITS, ranked.limits), ranked.ranks - means)

    def limit(self, detector: RuleDetector, *, watching: bool) -> float:
        """Return the limit of values that have none of their own: of the mean, while an alert fires."""
        if watching:
            return ANY_LIMIT
        normal = self._normal[0]
        back = BACK * abs(normal - (normal if self.before is None else self.since))
        lenient = max(back - self._step, 0.0)
        reference = normal - lenient if detector.movement == "fall" else normal + lenient
        # A mean can come back over no limit at an end of the range.
        return min(max(detector.limit(self._rule, reference, watching=False), 1e-6), 1 - 1e-6)

    def beyond(self, detectors: list[RuleDetector], positions: Rows | None = None) -> tuple[float, float]:
        """Return the limits of values that are remembered: those of the first mean, for all values."""
        low, high = -1.0, 2.0
        for detector in detectors:
            if detector.active and self.cut is not None:
                limit = detector.limit(self._rule, self.cut, watching=True)
                low, high = (limit, high) if detector.movement == "fall" else (low, limit)
        return low, high

    def _before(self, alarm: Alarm) -> tuple[float, int]:
        n = max(self.n - alarm.change_n, 1)
        mean = (self.total - alarm.change_n * alarm.change_mean) / n
        return min(max(mean, 0.0), 1.0), n

    def confirms(self, alarm: Alarm) -> bool:
        """Return whether the means before and since the change are further apart than what does not matter."""
        return abs(self._before(alarm)[0] - alarm.change_mean) > self._step

    def fired(self, alarm: Alarm) -> None:
        """Take what was normal before an alert that fires: the mean of the values before the change."""
        self.before, self.since = self._before(alarm), alarm.change_mean

    @property
    def _normal(self) -> tuple[float, int]:
        return self.before or (self.total / max(self.n, 1), self.n)

    def facts(self, detector: RuleDetector, alarm: Alarm, at: Place) -> AlarmFacts:
        """Return the facts of an alarm."""
        normal, n = self._normal
        return AlarmFacts(normal, n, alarm.change_mean, normal, _AllBefore())

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        numbers = {"n": self.n, "total": self.total, "cut": self.cut, "before": self.before, "since": self.since}
        return {"earlier": self.values.dump() | {"answers": numbers}}

    def load(self, dumped: Mapping[str, Any], *, known: bool) -> None:
        """Set the state to what `dump` returned."""
        earlier = dumped["earlier"]
        self.values.load(earlier)
        numbers = earlier["answers"]
        self.n, self.total, self.cut, self.since = (numbers[name] for name in ("n", "total", "cut", "since"))
        self.is_known = self.cut is not None
        self.before = None if numbers["before"] is None else (numbers["before"][0], numbers["before"][1])
