"""Evaluates the alert rules so that few alarms of a deployment are false (`statistics.false_discovery`)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import fsum
from typing import Final

import numpy as np

from ragtide_schemas import AlertRule

from ..statistics.drift.drift import Alarm
from ..statistics.drift.false_discovery import AlarmLevel
from ..statistics.tables.batches import Floats, Rows
from .adjusted_rules import OnScale
from .arrival_order import ArrivalOrder
from .evaluator import Raised, RuleEvaluator
from .rule_state import RuleState
from .rule_values import Arrived
from .seasonal_rules import WAITS

VALUES_AFTER_ALARM: Final = 500
"""Number of values that are evaluated at once after an alarm, because the next alarm may follow soon."""


@dataclass(frozen=True, slots=True)
class FalseDiscovery:
    """Of the alarms of a period, at most the share `rate` is false on average, over all rules without a run length."""

    rate: float
    """Of the deployment, in (0, 1)."""
    period_ms: int
    partitions: int = 1
    """Number of partitions that share the rate."""


class ControlledEvaluator(RuleEvaluator):
    """The states of all rules on all keys; those without a run length raise a bounded share of false alarms.

    An alarm lowers the level of every other watch. So values of all keys are evaluated in the order of their arrival,
    up to the next alarm of any rule, and from there on again. Rules with a run length, and rules that look for the end
    of a change, have a level of their own and are not counted.

    Args:
        rules: of the deployment.
        limits: the rate, its period and the number of partitions that share it.
        origin: makes alert ids of a split pipeline different in each partition.
    """

    def __init__(self, rules: tuple[AlertRule, ...], limits: FalseDiscovery, origin: str = "") -> None:
        super().__init__(rules, None, origin)
        self.false_discovery_rate = limits.rate
        self._limits = limits
        self._level = AlarmLevel(limits.rate / limits.partitions, limits.period_ms)
        self._periods = self._level

    def begin(self, time_ms: int) -> list[int]:
        """Begin the periods and windows that begin at a time; return the rows whose rule states changed."""
        changed = super().begin(time_ms)
        if not self._level.begins(time_ms):
            return changed
        watches = np.flatnonzero((self._share > 0) & self._active)
        evidence = self._table.evidence(self._table_row[watches])
        # An exact sum, whatever the order of the rows.
        factor = self._level.begin(time_ms, fsum(evidence.tolist()))
        if factor == 1:
            return changed
        watches = watches[evidence > 0]
        self._table.scale(self._table_row[watches], factor)
        row_of = np.repeat(np.arange(len(self._states)), self._count[: len(self._states)])
        rows: list[int] = np.unique(row_of[watches]).tolist()
        return changed + rows

    def _evaluate(self, arrived: Sequence[Arrived]) -> list[Raised]:
        """Evaluate the rules on values whose own limits are known."""
        arrived = self._with_costs([one for one in arrived if one.parts.size])
        if not arrived:
            return []
        learned: dict[RuleState, int] = {}
        pairs = []
        for these in arrived:
            learned |= self._learn(these.values)
            pairs.append(self._expanded(these.values.rows))
        queue = ArrivalOrder(arrived, pairs)
        begins = np.array([learned.get(state, -1) for state, _ in self._detectors], dtype=np.intp)
        raised: list[Raised] = []
        start, size = 0, len(queue)
        while start < len(queue):
            stop = min(start + size, len(queue))
            steps = queue.steps(start, stop)
            detectors = queue.detectors[steps]
            steps = steps[self._active[detectors] & (queue.values[steps] > begins[detectors])]
            limits, scale = self._own_limits(queue.values[steps], queue.detectors[steps], queue.hours[steps])
            if limits is not None:
                known = limits != WAITS
                steps, limits = steps[known], limits[known]
                scale = None if scale is None else scale.at_places(known)
            alarms = self._take(queue, steps, limits, scale)
            if alarms:
                stop = int(queue.looks[steps[alarms[0].position]]) + 1
            self._remember_places(queue, learned, start, stop)
            raised += self._raise(queue, steps, alarms)
            start, size = stop, VALUES_AFTER_ALARM if alarms else 2 * size
        return raised

    def _with_costs(self, arrived: Sequence[Arrived]) -> list[Arrived]:
        """Return batches whose values have the costs of the period, in the order of arrival; a cluster all of its own.

        All rules on one key have the same cost: the cost of the last value of the last rule, which is the lowest.
        """
        if not arrived:
            return []
        sizes = [np.ones_like(one.parts) if one.values.sizes is None else one.values.sizes for one in arrived]
        each = np.concatenate([self._budgeted[one.values.rows] for one in arrived])
        size = np.concatenate(sizes)
        order = np.argsort(np.concatenate([one.parts for one in arrived]), kind="stable")
        ends = np.cumsum((each * size)[order])
        spent = self._level.spend(int(ends[-1]))
        costs = np.zeros(order.size)
        some = each[order] > 0
        costs[order[some]] = spent[ends[some] - 1]
        costs *= size
        edges = np.cumsum([0, *(one.parts.size for one in arrived)])
        return [
            one._replace(values=replace(one.values, costs=costs[start:end]))
            for one, (start, end) in zip(arrived, pairwise(edges.tolist()), strict=True)
        ]

    def _take(self, queue: ArrivalOrder, steps: Rows, limits: Floats | None, scale: OnScale | None) -> list[Alarm]:
        """Add steps to the detectors, up to the first value with an alarm; return its alarms.

        Args:
            queue: of values.
            steps: places in it.
            limits: of the steps, as those of `DetectorTable.update`.
            scale: of the values; None if they stay as they are.
        """
        values, costs = np.empty(steps.size), np.empty(steps.size)
        times_ms, sizes = np.empty(steps.size, dtype=np.int64), np.ones(steps.size, dtype=np.int64)
        for number, (batch, _) in enumerate(queue.arrived):
            mine = np.flatnonzero(queue.batches[steps] == number)
            value_of, detector_of = queue.values[steps[mine]], queue.detectors[steps[mine]]
            values[mine], costs[mine], own_sizes = self._steps(batch, value_of, detector_of)
            times_ms[mine] = batch.times_ms[value_of]
            if own_sizes is not None:
                sizes[mine] = own_sizes
        values, centers = (values, None) if scale is None else scale.applied(values)
        detectors = queue.detectors[steps]
        levels: Floats = np.where(self._share[detectors] > 0, self._level.level, 1.0)
        alarms, _ = self._table.update(
            self._table_row[detectors],
            values,
            times_ms,
            costs=costs,
            sizes=sizes,
            levels=levels,
            looks=queue.looks[steps],
            limits=limits,
            centers=centers,
        )
        return alarms

    def _remember_places(self, queue: ArrivalOrder, learned: dict[RuleState, int], start: int, stop: int) -> None:
        """Remember interactions beyond the alarm limits, from one place up to another (exclusive)."""
        for these, places in zip(queue.arrived, queue.places, strict=True):
            first, end = np.searchsorted(places, [start, stop]).tolist()
            if first < end:
                between = partial(_between, learned, first - 1, end - 1)
                self._remember(these.values, between, slice(first, end))

    def _raise(self, queue: ArrivalOrder, steps: Rows, alarms: Sequence[Alarm]) -> list[Raised]:
        """Return the alerts of the alarms at one value, at most one a rule, and count those of watches."""
        first: dict[RuleState, Alarm] = {}
        for alarm in alarms:
            first.setdefault(self._detectors[int(queue.detectors[steps[alarm.position]])][0], alarm)
        raised = []
        for alarm in first.values():
            step = int(steps[alarm.position])
            detector = int(queue.detectors[step])
            self._level.count(int(self._share[detector] > 0))
            values, parts = queue.arrived[int(queue.batches[step])]
            one = self._alarmed(values, int(queue.values[step]), detector, alarm)
            raised.append(replace(one, position=int(parts[one.position])))
        return raised

    def dump_clock(self) -> bytes:
        """Return the level with its settings, and the present windows, for `load_clock`."""
        state = json.loads(super().dump_clock())
        return json.dumps({**state, "level": [*self._settings(), self._level.to_bytes().hex()]}).encode()

    def load_clock(self, data: bytes) -> None:
        """Set level and windows to those that `dump_clock` returned; the level of other settings begins anew."""
        super().load_clock(data)
        *settings, level = json.loads(data).get("level") or [None]
        if settings == self._settings():
            self._level.load(bytes.fromhex(level))

    def _settings(self) -> list[float]:
        return [self._limits.rate, self._limits.partitions, self._limits.period_ms]


def _between(learned: dict[RuleState, int], first: int, last: int, state: RuleState) -> tuple[int, int]:
    return max(learned.get(state, -1), first), last
