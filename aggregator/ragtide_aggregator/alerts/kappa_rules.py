"""Evaluates the rules on Cohen's kappa on pairs of a score and a gold score. No clock, no I/O."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from ragtide_schemas import Alert, AlertRule

from ..events.batch import EventBatch
from ..events.keys import GOLD_LABELER, PairKey
from ..statistics.drift.drift import DetectorTable
from ..statistics.tables.batches import by_row
from .evaluator import Raised
from .kappa_items import JoinedPairs
from .kappa_state import KappaState


class KappaRules:
    """The states of all rules on kappa, on all keys of pairs.

    Args:
        rules: of the deployment; only those on kappa count.
        origin: makes alert ids of a split pipeline different in each partition.
        sessions: whether the clusters of interactions are sessions, of which neighbouring pairs count once.
    """

    def __init__(self, rules: Sequence[AlertRule], origin: str = "", *, sessions: bool = False) -> None:
        self._rules = [rule for rule in rules if rule.compares_verdicts]
        self._origin, self._sessions = origin, sessions
        self._table = DetectorTable()
        # By row of pairs: the row of the score in the state, and the states of rules.
        self._states: dict[int, tuple[int, list[KappaState]]] = {}
        self._ruled = np.zeros(16, dtype=bool)
        self._changed: dict[str, KappaState] = {}

    def add_row(self, row: int, key: PairKey, proxy_row: int) -> None:
        """Add a row of pairs, with the row of its score in the state."""
        states = [KappaState(rule, key, self._table, self._origin) for rule in self._rules if _matches(rule, key)]
        if not states:
            return
        self._states[row] = proxy_row, states
        if row >= self._ruled.size:
            self._ruled = np.concatenate([self._ruled, np.zeros(max(self._ruled.size, row), dtype=bool)])
        self._ruled[row] = True

    def states(self) -> dict[str, KappaState]:
        """Return all states by the names of their fields in a checkpoint."""
        return {state.field: state for _, states in self._states.values() for state in states}

    def firing(self) -> list[Alert]:
        """Return the alerts that fire."""
        return [state.firing for state in self.states().values() if state.firing is not None]

    def take(self, batch: EventBatch) -> list[Raised]:
        """Take the pairs of a batch in their order; return the alerts with the parts that decided them."""
        if not self._states or not batch.pairs.size:
            return []
        known = batch.pairs < self._ruled.size
        ruled = np.flatnonzero(known & self._ruled[np.where(known, batch.pairs, 0)])
        raised = []
        for row, found in by_row(batch.pairs[ruled]):
            places = ruled[found]
            parts = batch.pairs_of[places]
            sessions = self._sessions and batch.clusters is not None
            pairs = JoinedPairs(
                scores=batch.scores[1, places],
                gold=batch.scores[0, places],
                probabilities=batch.scores[2, places],
                times_ms=batch.times_ms[parts],
                clusters=batch.clusters[parts] if sessions else np.zeros(places.size, dtype=np.int64),  # type: ignore[index]
                places=batch.places[parts],
                source=batch.source,
            )
            proxy_row, states = self._states[row]
            for state in states:
                self._changed[state.field] = state
                raised += [(int(places[one.position]), proxy_row, one) for one in state.take(pairs)]
        # In the order of the pairs, whatever the numbers of their rows.
        raised.sort(key=lambda one: one[0])
        return [Raised(int(batch.pairs_of[place]), row, one.alert) for place, row, one in raised]

    def take_changes(self) -> dict[str, bytes]:
        """Return the states that changed since the last call, by the names of their fields."""
        changed, self._changed = self._changed, {}
        return {field: changed[field].to_bytes() for field in sorted(changed)}


def _matches(rule: AlertRule, key: PairKey) -> bool:
    """Return whether a rule applies to pairs: with gold scores of its metric, in its scope."""
    proxy = key.proxy
    segment = None if proxy.segment is None else proxy.segment.partition("=")[0]
    if key.labeler != GOLD_LABELER or proxy.metric != rule.metric:
        return False
    return rule.segment == segment and fnmatchcase(proxy.pipeline, rule.pipeline)
