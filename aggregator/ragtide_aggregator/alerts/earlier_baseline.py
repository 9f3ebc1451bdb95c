"""The baseline of a rule that compares each value with all earlier ones, by ranks (`statistics.drift.ranks`). No clock.

Values are not learned while an alert fires, so that a long fault does not become normal.
"""

from collections.abc import Mapping
from typing import Any, Final

from ragtide_schemas import AlertRule

from ..statistics.drift.drift import Alarm
from ..statistics.drift.ranks import LEAST
from ..statistics.tables.batches import Rows
from .baseline import ANY_LIMIT, AlarmDetail, AlarmFacts, Place, RuleBaseline
from .compared_values import ComparedValues
from .rule_values import LearnedValues
from .statistic import RuleDetector, Statistic, statistic_of

NO_LIMIT: Final = 0.0
"""An end of the range: a detector with it takes no values."""

BACK: Final = 1 / 3
"""Part of a change that may stay when its alert resolves."""


class _AllBefore(AlarmDetail):
    source = "earlier"


class EarlierBaseline(RuleBaseline):
    """All values before each value; the first `LEAST` are only learned.

    The values of all baselines are in one table, so that `ComparedValues` compares them together.

    Attributes:
        row: of the table with the values so far.
        cut: mean of the first values; interactions beyond it are remembered. None while it is not known.
        before: mean of the values before the change of the alert that fired last, and their number.
        since: mean of the values since that change.
    """

    def __init__(self, rule: AlertRule, value_range: tuple[float, float], compared: ComparedValues) -> None:
        self._rule, self._statistic = rule, statistic_of(rule, value_range)
        self._compared, self._table = compared, compared.table
        self.row = self._table.add_row()
        self.cut: float | None = None
        self.before: tuple[float, int] | None = None
        self.since = 0.0
        self.is_known = False
        self._step = self._statistic.moved(0.0, rule.min_effect)
        self._table.step[self.row] = self._step

    @property
    def n(self) -> int:
        """Number of single values so far."""
        return int(self._table.answers[self.row])

    @property
    def total(self) -> float:
        """Sum of the single values so far."""
        return float(self._table.total[self.row])

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
        self._table.add_one(self.row, values.mean, values.size)
        if self._table.n[self.row] < LEAST:
            return False
        self.is_known, self.cut = True, self.total / self.n
        return True

    def settle(self, end: int) -> None:
        """Add the values that detectors have compared, up to a position of the batch; forget the others."""
        self._compared.settle_row(self.row, end)

    def limit(self, detector: RuleDetector, *, watching: bool) -> float:
        """Return the limit of values that have none of their own: of the mean, while an alert fires."""
        if watching:
            # First answers may be compared before there are enough other values: these are only learned until then.
            return ANY_LIMIT if self.is_known else NO_LIMIT
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

    def dump_with(self, earlier: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state as JSON can hold it, given that of the row of the table."""
        numbers = {"n": self.n, "total": self.total, "cut": self.cut, "before": self.before, "since": self.since}
        return {"earlier": {**earlier, "answers": numbers}}

    def load(self, dumped: Mapping[str, Any], *, known: bool) -> None:
        """Set the state to what `dump_with` returned."""
        earlier = dumped["earlier"]
        self._table.take_dumped(self.row, earlier)
        numbers = earlier["answers"]
        self._table.answers[self.row], self._table.total[self.row] = numbers["n"], numbers["total"]
        self.cut, self.since = numbers["cut"], numbers["since"]
        self.is_known = self.cut is not None
        self.before = None if numbers["before"] is None else (numbers["before"][0], numbers["before"][1])
