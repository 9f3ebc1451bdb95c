"""Evaluates the rules on covariates: numbers known before the answer, or the values of a segment. No clock, no I/O.

Each rule on each key has a row of its own, because each has its own bins. In a session the first interaction counts
alone: interactions of one session are alike, and the first of them is independent of all earlier ones.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import Alert, AlertRule, MetricEvent

from ..events.batch import EventBatch
from ..events.keys import EstimateKey
from ..statistics.tables.batches import Rows, by_row
from .distribution_baseline import DistributionBaseline
from .evaluator import Raised, RuleEvaluator
from .messages import restated
from .rule_state import RuleState
from .rule_values import Arrived, RuleValues


class DistributionRules:
    """The states of all rules on covariates, on all keys.

    Args:
        rules: of the deployment; only those on covariates count.
        origin: makes alert ids of a split pipeline different in each partition.
    """

    def __init__(self, rules: Sequence[AlertRule], origin: str = "") -> None:
        self._rules = [rule for rule in rules if rule.covariate is not None]
        self.evaluator = RuleEvaluator((), origin=origin)
        """Of these rules."""
        self._rows: dict[tuple[str, EstimateKey], int] = {}
        self._fields: dict[str, int] = {}
        self.changed = set[str]()
        """Names of the states that changed since the last commit."""

    def rows_of(self, event: MetricEvent, *, segments: bool) -> list[int]:
        """Return the rows of the rules that apply to an event; a rule on a new key gets a row.

        Args:
            event: with pipeline, run and segments as which it counts.
            segments: whether segment values have estimates.
        """
        found = []
        for rule in self._rules:
            value = None if rule.segment is None or not segments else event.segments.get(rule.segment)
            if not fnmatchcase(event.pipeline, rule.pipeline) or (rule.segment is not None and value is None):
                continue
            segment = None if value is None else f"{rule.segment}={value}"
            labeler = event.profile, event.labeler, event.labeler_version
            found.append(self._row(rule, EstimateKey(event.pipeline, event.run, segment, rule.metric, *labeler)))
        return found

    def _row(self, rule: AlertRule, key: EstimateKey) -> int:
        row = self._rows.get((rule.name, key))
        if row is None:
            row = self._rows[rule.name, key] = self.evaluator.add_row(key, [rule])
            self._fields[self._state(row).field] = row
        return row

    def _state(self, row: int) -> RuleState:
        return self.evaluator.of(row)[0]

    def _baseline(self, row: int) -> DistributionBaseline:
        baseline = self._state(row).baseline
        assert isinstance(baseline, DistributionBaseline)  # noqa: S101 - for the type checker: all rules here have one
        return baseline

    def load(self, field: str, data: bytes) -> bool:
        """Set the state with the name of a field in a checkpoint; return False if it belongs to no rule here."""
        owner = RuleState.owner(field, self._rules)
        if owner is None:
            return False
        row = self._row(*owner)
        self.evaluator.load(row, self._state(row), data)
        return True

    def firing(self) -> list[Alert]:
        """Return the alerts that fire."""
        return self.evaluator.firing()

    @property
    def keys(self) -> list[EstimateKey]:
        """Keys of the rules of which a value came."""
        return [key for (_, key), row in self._rows.items() if self._baseline(row).n]

    def take(self, batch: EventBatch, counted: NDArray[np.bool_]) -> list[Raised]:
        """Take the covariates of a batch in their order; return the alerts with the parts that decided them.

        Args:
            batch: events.
            counted: whether each part counts: it is the first interaction of its session, or by itself.
        """
        if not batch.ruled.size:
            return []
        raised = []
        for row, lines in by_row(batch.ruled):
            parts = batch.ruled_of[lines]
            parts = parts[counted[parts]]
            state = self._state(row)
            column = batch.source.covariate(state.rule.covariate or "")[batch.places[parts]]
            known = np.array(
                [value is not None and not (isinstance(value, float) and isnan(value)) for value in column.tolist()],
                dtype=bool,
            )
            if known.any():
                found = self._take(row, batch, parts[known], column[known].tolist())
                raised += [(state.field, alert) for alert in found]
        # Of one part in the order of the fields, whatever the numbers of the rows.
        raised.sort(key=lambda found: (found[1].position, found[0]))
        return [found for _, found in raised]

    def _take(self, row: int, batch: EventBatch, parts: Rows, values: Sequence[Any]) -> list[Raised]:
        """Give values to a rule; return its alerts with the parts that decided them."""
        state, baseline = self._state(row), self._baseline(row)
        self.changed.add(state.field)
        before, places = baseline.n, batch.places[parts]

        def interaction_id(position: int) -> str:
            return batch.source.interaction_id(int(places[position]))

        taken = RuleValues(
            rows=np.full(parts.size, row),
            values=baseline.take(values),
            times_ms=batch.times_ms[parts],
            numbers=before + 1 + np.arange(parts.size),
            event_of=places,
            source=batch.source,
            hours=np.zeros(parts.size, dtype=np.intp),
        )
        raised = []
        for found in self.evaluator.evaluate([Arrived(taken, np.arange(parts.size))]):
            alert, n = found.alert, found.alert.observed_n or 1
            change = baseline.change(found.position, n, interaction_id)
            # A rule on a covariate has a run length, which the alert states exactly.
            facts: dict[str, Any] = {"run_length": state.rule.run_length}
            facts |= {"covariate": state.rule.covariate, "values": change.values}
            if alert.status == "firing":
                facts |= {"shares": change.shares, "distance": change.distance, "worst_interaction_ids": change.newest}
            alert = restated(alert, **facts)
            state.fired_as(alert)
            raised.append(Raised(int(parts[found.position]), -1, alert))
        baseline.remember(interaction_id)
        return raised

    def take_changes(self) -> dict[str, bytes]:
        """Return the states that changed since the last call, by the names of their fields."""
        changed, self.changed = sorted(self.changed), set()
        rows = {field: self._fields[field] for field in changed}
        return {field: self._state(row).to_bytes(self._baseline(row).n) for field, row in rows.items()}
