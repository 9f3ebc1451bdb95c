"""Reads the evidence of rules from their states in a checkpoint, for a reader without a state. No clock, no I/O."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import AlertRule
from ragtide_schemas.alert_kinds import EARLIER, SEASONAL

from ..events.keys import HIDDEN, EstimateKey
from ..statistics.drift.drift import DetectorTable
from .rule_state import FirstAnswerCounts, RuleEvidence, RuleState, matches
from .rule_values import BEGINNINGS

_KIND: Final = CheckpointField.RULE_STATE

WHOLE: Final = ",null,null,"
"""Run and segment in the name of the state of a rule on a whole live pipeline."""


class KeyEvidence(NamedTuple):
    """The evidence of one rule on one key."""

    key: EstimateKey
    rule: str
    """Name of the rule."""
    evidence: RuleEvidence


class StoredEvidence:
    """Reads the evidence of rules.

    Args:
        rules: of the reader; the state of another rule, or of a changed one, has no evidence.
    """

    def __init__(self, rules: Sequence[AlertRule]) -> None:
        self._rules = rules
        # By name whether a rule looks for a change at once, and does not learn first.
        self._begins = {rule.name: False for rule in rules if rule.baseline in (EARLIER, SEASONAL)}
        self._everywhere = [rule.model_copy(update={"pipeline": "*"}) for rule in rules]

    def of_field(self, name: str, state: bytes) -> KeyEvidence | None:
        """Return the evidence in the field of a rule state; None while the rule looks for no change.

        Most rules of many pipelines learn: `RuleState.may_look_for_change` finds them in less time.

        Raises:
            ValueError: the field cannot be read; other errors of a damaged field, too.
        """
        owner = RuleState.owner(name.removeprefix(_KIND), self._rules)
        if owner is None or not _is_read(*owner):
            return None
        rule = RuleState(*owner, DetectorTable())
        if RuleState.took_first_answers(state):
            rule.begin_first_answers({length: FirstAnswerCounts() for length in BEGINNINGS})
        rule.load(state)
        return _evidence(rule)

    def of_new_rules(self, names: Iterable[str]) -> Iterator[KeyEvidence]:
        """Yield the evidence of rules that have no stored state yet on the keys of other rules.

        Args:
            names: of all fields of rule states.
        """
        stored: dict[EstimateKey, set[str]] = {}
        for name in self._names_of_new_rules(names):
            with suppress(ValueError):  # the owner of the partition drops what is no name of a rule state
                field = name.removeprefix(_KIND)
                stored.setdefault(RuleState.key_of(field), set()).add(field)
        for key, fields in stored.items():
            for rule in self._rules:
                if self._begins.get(rule.name, True) and _is_read(rule, key):
                    state = RuleState(rule, key, DetectorTable())
                    self._begins[rule.name] = state.looks_for_change
                    begun = None if state.field in fields else _evidence(state)
                    if begun is not None:
                        yield begun

    def _names_of_new_rules(self, names: Iterable[str]) -> Iterator[str]:
        begins: dict[str, bool] = {}
        for name in names:
            # Metric and labeler come after run and segment: few of them for many pipelines.
            _, _, measured = name.partition(WHOLE)
            if measured not in begins:
                begins[measured] = self._may_begin(name)
            if begins[measured]:
                yield name

    def _may_begin(self, name: str) -> bool:
        """Return whether a rule looks for a change at once on the keys of any pipeline that are measured alike."""
        try:
            key = RuleState.key_of(name.removeprefix(_KIND))
        except ValueError:
            return True
        for rule in self._everywhere:
            if rule.name not in self._begins and _is_read(rule, key):
                self._begins[rule.name] = RuleState(rule, key, DetectorTable()).looks_for_change
        return any(self._begins.get(rule.name, False) and _is_read(rule, key) for rule in self._everywhere)


def _is_read(rule: AlertRule, key: EstimateKey) -> bool:
    whole = key.segment is None and key.run is None
    return whole and not key.metric.startswith(HIDDEN) and matches(rule, key)


def _evidence(state: RuleState) -> KeyEvidence | None:
    evidence = state.evidence()
    return None if evidence is None else KeyEvidence(state.key, state.rule.name, evidence)
