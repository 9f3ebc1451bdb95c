"""Evaluates the rules on Cohen's kappa on pairs of a score and a gold score. No clock, no I/O."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import numpy as np

from ragtide_schemas import Alert, AlertRule

from ..events.batch import EventBatch
from ..events.keys import GOLD_LABELER, PairKey
from ..statistics.tables.batches import by_row
from .evaluator import Raised, RuleEvaluator
from .kappa_baseline import JoinedPairs, KappaBaseline
from .messages import MIXED_GOLD_NOTE, restated
from .rule_state import RuleState
from .rule_values import Arrived


class KappaRules:
    """The states of all rules on kappa, on all keys of pairs.

    Args:
        rules: of the deployment; only those on kappa count.
        origin: makes alert ids of a split pipeline different in each partition.
        sessions: whether the clusters of interactions are sessions, of which neighbouring pairs count once.
    """

    def __init__(self, rules: Sequence[AlertRule], origin: str = "", *, sessions: bool = False) -> None:
        self._rules = [rule for rule in rules if rule.compares_verdicts]
        self._sessions = sessions
        # Rules on the same pairs have couples of their own, so each has a row.
        self.evaluator = RuleEvaluator((), origin=origin)
        """Of these rules."""
        # By row of pairs: the row of the score in the state, and the rows of the rules.
        self._rows: dict[int, tuple[int, list[int]]] = {}
        self._fields: dict[str, int] = {}
        self.changed = set[str]()
        """Names of the states that changed since the last commit."""

    def add_row(self, row: int, key: PairKey, proxy_row: int) -> None:
        """Add a row of pairs, with the row of its score in the state."""
        rows = [self.evaluator.add_row(key.proxy, [rule]) for rule in self._rules if _matches(rule, key)]
        self._fields |= {self._state(own).field: own for own in rows}
        if rows:
            self._rows[row] = proxy_row, rows

    def _state(self, row: int) -> RuleState:
        return self.evaluator.of(row)[0]

    def load(self, field: str, data: bytes) -> bool:
        """Set the state with the name of a field in a checkpoint; return False if there is none."""
        row = self._fields.get(field)
        if row is None:
            return False
        self.evaluator.load(row, self._state(row), data)
        return True

    def firing(self) -> list[Alert]:
        """Return the alerts that fire."""
        return self.evaluator.firing()

    def take(self, batch: EventBatch) -> list[Raised]:
        """Take the pairs of a batch in their order; return the alerts with the parts that decided them."""
        if not self._rows or not batch.pairs.size:
            return []
        raised = []
        for pair_row, paired in by_row(batch.pairs):
            # An interaction without a score of the labeler compares nothing.
            places = paired[~np.isnan(batch.scores[:2, paired]).any(axis=0)]
            if pair_row not in self._rows or not places.size:
                continue
            parts = batch.pairs_of[places]
            clusters = np.zeros(places.size, dtype=np.int64)
            if self._sessions and batch.clusters is not None:
                clusters = batch.clusters[parts]
            pairs = JoinedPairs(
                scores=batch.scores[1, places],
                gold=batch.scores[0, places],
                probabilities=batch.scores[2, places],
                times_ms=batch.times_ms[parts],
                clusters=clusters,
                places=batch.places[parts],
                source=batch.source,
            )
            proxy_row, rows = self._rows[pair_row]
            for row in rows:
                raised += [(int(places[position]), proxy_row, alert) for position, alert in self._take(row, pairs)]
        # In the order of the pairs, whatever the numbers of their rows.
        raised.sort(key=lambda found: found[0])
        return [Raised(int(batch.pairs_of[place]), row, alert) for place, row, alert in raised]

    def _take(self, row: int, pairs: JoinedPairs) -> Iterator[tuple[int, Alert]]:
        """Give pairs to a rule; yield the positions of the pairs that decided alerts, and these."""
        state = self._state(row)
        self.changed.add(state.field)
        items = _baseline(state).items(pairs)
        couples = items.couples(row)
        for found in self.evaluator.evaluate([Arrived(couples, couples.positions)]):
            alert = found.alert
            if alert.status == "firing":
                mixed = (MIXED_GOLD_NOTE,) if items.mixed(found.position) else ()
                # A rule on kappa has a run length, which the alert states exactly.
                alert = restated(alert, run_length=state.rule.run_length, notes=(*alert.notes, *mixed))
                state.fired_as(alert)
            yield found.position, alert

    def take_changes(self) -> dict[str, bytes]:
        """Return the states that changed since the last call, by the names of their fields."""
        changed, self.changed = sorted(self.changed), set()
        states = {field: self._state(self._fields[field]) for field in changed}
        return {field: state.to_bytes(_baseline(state).taken) for field, state in states.items()}


def _baseline(state: RuleState) -> KappaBaseline:
    assert isinstance(state.baseline, KappaBaseline)  # noqa: S101 - for the type checker: all rules here are on kappa
    return state.baseline


def _matches(rule: AlertRule, key: PairKey) -> bool:
    """Return whether a rule applies to pairs: with gold scores of its metric, in its scope."""
    proxy = key.proxy
    segment = None if proxy.segment is None else proxy.segment.partition("=")[0]
    if key.labeler != GOLD_LABELER or proxy.metric != rule.metric:
        return False
    return rule.segment == segment and fnmatchcase(proxy.pipeline, rule.pipeline)
