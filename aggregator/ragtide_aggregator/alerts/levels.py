"""Levels: when the detectors of rules without a run length alarm, and what each value costs. No clock, no I/O.

A rule with a run length has a level of its own: each of its values costs 1 / run length, and its detectors alarm at 1.
The other rules share a level, which is one of the classes below.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final

import numpy as np

from ragtide_runtime.settings.alerting import BudgetSettings

from ..statistics.drift.budget import Budget
from ..statistics.drift.false_discovery import AlarmLevel
from ..statistics.tables.batches import Floats, Rows

MOST_AT_ONCE: Final = 0.1
"""Highest cost of one value, in false alarms, so that a run length is at least 10."""


class OwnLevel:
    """Nothing is shared: a rule without a run length has the default one.

    Attributes:
        rate: largest mean share of false alarms among all alarms; None where it is unbounded.
        is_joint: whether an alarm changes the level of all other detectors, which then see no later value before it.
    """

    rate: float | None = None
    is_joint = False

    @property
    def next_ms(self) -> float:
        """Beginning of the next period; infinity without periods, minus infinity before the first one."""
        return inf

    def begin(self, time_ms: int, held: Callable[[], float]) -> float:
        """Begin the period of a time; return the factor by which the evidence of every detector is multiplied.

        Args:
            time_ms: event time.
            held: returns the sum of the evidence of all detectors that share the level.
        """
        return 1.0

    def costs_at_arrival(self, detectors: Rows) -> Floats | None:
        """Return the costs of values that arrive, in order; None if they cost nothing until they count.

        Args:
            detectors: number of rules that share the level, for each value.
        """
        return None

    def costs_when_counted(self, detectors: Rows, sizes: Rows | None) -> Floats | None:
        """Return the costs of values that count, or of closed clusters, in order; None for the costs they came with.

        Args:
            detectors: number of rules that share the level, for each value.
            sizes: of clusters; None for single values.
        """
        return None

    @property
    def level(self) -> float:
        """The evidence at which a detector alarms."""
        return 1.0

    def count(self, alarms: int) -> None:
        """Count alarms of detectors that share the level."""

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        return {}

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Set the state to what `dump` returned; it begins anew after other settings."""


class SharedBudget(OwnLevel):
    """So many false alarms in a period, on average, whatever their rule. A value costs as soon as it arrives."""

    def __init__(self, false_alarms: float, period_ms: int) -> None:
        self._budget = Budget(false_alarms, period_ms)

    @property
    def next_ms(self) -> float:
        """Beginning of the next period."""
        return self._budget.next_ms

    def begin(self, time_ms: int, held: Callable[[], float]) -> float:
        """Begin the period of a time; evidence stays as it is."""
        self._budget.begin(time_ms)
        return 1.0

    def costs_at_arrival(self, detectors: Rows) -> Floats | None:
        """Return the costs of values that arrive, in order, whether or not a detector takes them."""
        return np.minimum(_last_costs(self._budget.spend, detectors), MOST_AT_ONCE)

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        return {"budget": self._budget.to_bytes().hex()}

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Set the state to what `dump` returned."""
        if dumped.get("budget") is not None:
            self._budget.load(bytes.fromhex(dumped["budget"]))


class FalseDiscoveryLevel(OwnLevel):
    """Few of the alarms of a period are false. A cluster costs when it is closed, for all of its values.

    Args:
        budget: with a rate of false discoveries, and its period.
        partitions: number of partitions that share the rate.
    """

    is_joint = True

    def __init__(self, budget: BudgetSettings, partitions: int) -> None:
        self.rate = rate = budget.false_discovery_rate or 0.0
        self._settings = [rate, partitions, budget.period_ms]
        self.alarms = AlarmLevel(rate / partitions, budget.period_ms)

    @property
    def next_ms(self) -> float:
        """Beginning of the next period."""
        return self.alarms.next_ms

    def begin(self, time_ms: int, held: Callable[[], float]) -> float:
        """Begin the period of a time; return the factor for evidence that is handed on."""
        return self.alarms.begin(time_ms, held())

    def costs_when_counted(self, detectors: Rows, sizes: Rows | None) -> Floats | None:
        """Return the costs of values that count; a cluster has those of all of its values."""
        if sizes is None:
            return _last_costs(self.alarms.spend, detectors)
        return _last_costs(self.alarms.spend, detectors * sizes) * sizes

    @property
    def level(self) -> float:
        """The evidence at which a detector alarms."""
        return self.alarms.level

    def count(self, alarms: int) -> None:
        """Count alarms, which lower the level."""
        self.alarms.count(alarms)

    def dump(self) -> dict[str, Any]:
        """Return the state with its settings, as JSON can hold it."""
        return {"level": [*self._settings, self.alarms.to_bytes().hex()]}

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Set the state to what `dump` returned; with other settings it begins anew."""
        *settings, level = dumped.get("level") or [None]
        if settings == self._settings:
            self.alarms.load(bytes.fromhex(level))


def _last_costs(spend: Callable[[int], Floats], counts: Rows) -> Floats:
    ends = np.cumsum(counts)
    spent = spend(int(ends[-1]) if ends.size else 0)
    costs, some = np.zeros(counts.size), counts > 0
    costs[some] = spent[ends[some] - 1]
    return costs
