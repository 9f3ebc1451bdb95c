"""Evaluates the rules that take values of their own: couples of verdicts, and covariates. No clock, no I/O.

Each rule on each key has a row of its own, because its baseline makes its values: it learns their bins, or holds the
half of a couple.
"""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import AlertRule, MetricEvent

from ..events.batch import EventBatch
from ..events.keys import GOLD_LABELER, EstimateKey, PairKey
from ..statistics.tables.batches import Rows, by_row
from .baseline import OwnValuesBaseline
from .evaluator import Raised, RuleEvaluator
from .rule_state import RuleState


class OwnValuesRules:
    """The states of all rules with values of their own, on all keys.

    Args:
        rules: of the deployment; only those on kappa and on covariates count.
        origin: makes alert ids of a split pipeline different in each partition.
        sessions: whether the clusters of interactions are sessions, of which neighbouring pairs count once.
    """

    def __init__(self, rules: Sequence[AlertRule], origin: str = "", *, sessions: bool = False) -> None:
        self._of_pairs = [rule for rule in rules if rule.compares_verdicts]
        self._of_covariates = [rule for rule in rules if rule.covariate is not None]
        self._sessions = sessions
        self.evaluator = RuleEvaluator((), origin=origin)
        """Of these rules."""
        self._rows: dict[tuple[str, EstimateKey], int] = {}
        self._fields: dict[str, int] = {}
        # By row of pairs: the row of the score in the state, and the rows of the rules.
        self._pairs: dict[int, tuple[int, list[int]]] = {}
        self.changed = set[str]()
        """Names of the states that changed since the last commit."""

    def add_pairs(self, row: int, key: PairKey, proxy_row: int) -> None:
        """Add a row of pairs, with the row of its score in the state: rules apply to those with gold scores."""
        proxy = key.proxy
        segment = None if proxy.segment is None else proxy.segment.partition("=")[0]
        rows = [
            self._row(rule, proxy)
            for rule in self._of_pairs
            if key.reference.labeler == GOLD_LABELER
            and (proxy.metric, segment) == (rule.metric, rule.segment)
            and fnmatchcase(proxy.pipeline, rule.pipeline)
        ]
        if rows:
            self._pairs[row] = proxy_row, rows

    def rows_of(self, event: MetricEvent, *, segments: bool) -> list[int]:
        """Return the rows of the rules on covariates that apply to an event; a rule on a new key gets a row.

        Args:
            event: with pipeline, run and segments as which it counts.
            segments: whether segment values have estimates.
        """
        rows = []
        for rule in self._of_covariates:
            value = None if rule.segment is None or not segments else event.segments.get(rule.segment)
            if not fnmatchcase(event.pipeline, rule.pipeline) or (rule.segment is not None and value is None):
                continue
            segment = None if value is None else f"{rule.segment}={value}"
            labeler = event.profile, event.labeler, event.labeler_version
            rows.append(self._row(rule, EstimateKey(event.pipeline, event.run, segment, rule.metric, *labeler)))
        return rows

    def _row(self, rule: AlertRule, key: EstimateKey) -> int:
        row = self._rows.get((rule.name, key))
        if row is None:
            row = self._rows[rule.name, key] = self.evaluator.add_row(key, [rule])
            self._fields[self._state(row).field] = row
        return row

    def _state(self, row: int) -> RuleState:
        return self.evaluator.of(row)[0]

    def _baseline(self, row: int) -> OwnValuesBaseline:
        baseline = self._state(row).baseline
        assert isinstance(baseline, OwnValuesBaseline)  # noqa: S101 - for the type checker: all rules here have one
        return baseline

    def load(self, field: str, data: bytes) -> bool:
        """Set the state with the name of a field in a checkpoint; return False if it belongs to no rule here."""
        if field not in self._fields:
            # Of pairs the rows are known before.
            owner = RuleState.owner(field, self._of_covariates)
            if owner is None:
                return False
            self._row(*owner)
        row = self._fields[field]
        self.evaluator.load(row, self._state(row), data)
        return True

    @property
    def covariate_keys(self) -> list[EstimateKey]:
        """Keys of the rules on covariates of which a value came."""
        covariates = {rule.name for rule in self._of_covariates}
        return [key for (name, key), row in self._rows.items() if name in covariates and self._baseline(row).taken]

    def take(self, batch: EventBatch, counted: NDArray[np.bool_]) -> list[Raised]:
        """Take the values of a batch in their order; return the alerts with the parts that decided them.

        Args:
            batch: events.
            counted: whether each part counts for a covariate: it is the first interaction of its session, or by
                itself. Interactions of one session are alike, and the first is independent of all earlier ones.
        """
        of_pairs: list[Raised] = []
        for pair_row, places in by_row(batch.pairs) if self._pairs else ():
            # An interaction without a score of the labeler compares nothing.
            pairs = places[~np.isnan(batch.scores[:2, places]).any(axis=0)]
            if pairs.size and pair_row in self._pairs:
                proxy_row, rows = self._pairs[pair_row]
                of_pairs += [replace(raised, row=proxy_row) for row in rows for raised in self._take(row, batch, pairs)]
        # In the order of the pairs, and of one part in that of the fields, whatever the numbers of the rows.
        of_pairs.sort(key=lambda raised: raised.position)
        of_pairs = [replace(raised, position=int(batch.pairs_of[raised.position])) for raised in of_pairs]
        of_covariates: list[tuple[str, Raised]] = []
        for row, lines in by_row(batch.ruled) if batch.ruled.size else ():
            parts = batch.ruled_of[lines]
            field, alerts = self._state(row).field, self._take(row, batch, parts[counted[parts]])
            of_covariates += [(field, replace(raised, row=-1)) for raised in alerts]
        of_covariates.sort(key=lambda alert: (alert[1].position, alert[0]))
        return [*of_pairs, *(raised for _, raised in of_covariates)]

    def _take(self, row: int, batch: EventBatch, places: Rows) -> list[Raised]:
        state, baseline = self._state(row), self._baseline(row)
        taken = baseline.take(row, batch, places, sessions=self._sessions)
        if taken is None:
            return []
        self.changed.add(state.field)
        alerts = self.evaluator.evaluate([taken])
        for raised in alerts:
            if raised.alert.status == "firing":
                state.fired_as(raised.alert)
        baseline.end_batch()
        return alerts

    def take_changes(self) -> dict[str, bytes]:
        """Return the states that changed since the last call, by the names of their fields."""
        rows, self.changed = [self._fields[field] for field in sorted(self.changed)], set()
        return self.evaluator.dump({row: self._baseline(row).taken for row in rows})
