"""The baseline of a rule on failures: the share of answers with the worst possible score. No clock, no I/O."""

from typing import Any

from ragtide_schemas import AlertRule, Direction

from ..events.keys import EstimateKey
from ..statistics.tables.batches import Floats, Rows
from .baseline import Baseline, FixedBaseline
from .rule_values import Inputs, LearnedValues, RuleValues
from .statistic import RuleDetector, Statistic


class FailureBaseline(FixedBaseline):
    """A share that is given or learned; a session fails if all of its answers do."""

    def __init__(self, rule: AlertRule, key: EstimateKey) -> None:
        self._worst = 1.0 if key.better is Direction.LOWER else 0.0
        super().__init__(rule, key.value_range, ("rise",), rule.given_baseline)
        self.transforms = True

    def _statistics(self, baseline: Baseline) -> list[Statistic]:
        return [Statistic("share", 0.0, 1.0)]

    def _given(self) -> Baseline | None:
        share = self._given_reference
        return None if share is None else Baseline((share, share))

    def learn(self, values: LearnedValues) -> bool:
        """Learn whether a value is a failure; return whether the baseline is known from the next value on."""
        failed = float(values.mean == self._worst)
        return super().learn(values._replace(mean=failed, mean_square=failed))

    def beyond(self, detectors: list[RuleDetector], positions: Rows | None = None) -> tuple[Any, Any]:
        """Return limits beyond which only failures are."""
        return (1e-9, 2.0) if self._worst == 0.0 else (-1.0, 1 - 1e-9)

    def inputs(self, detector: RuleDetector, batch: RuleValues, positions: Rows, *, watching: bool) -> Inputs:
        """Return 1 for a failure and 0 for another value."""
        failures: Floats = (batch.values[positions] == self._worst).astype(float)
        return Inputs(failures)
