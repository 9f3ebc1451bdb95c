"""Counts the detectors of alert rules on keys. No state."""

from collections.abc import Iterable

from ragtide_schemas import AlertRule

from ..events.keys import EstimateKey
from .rule_state import matches


def watches(rules: Iterable[AlertRule], keys: Iterable[EstimateKey]) -> int:
    """Return the number of detectors that share the false alarms of a deployment: of rules without a run length."""
    shared = [rule for rule in rules if rule.run_length is None]
    return sum(_detectors(rule, key) for key in keys for rule in shared if matches(rule, key))


def _detectors(rule: AlertRule, key: EstimateKey) -> int:
    movements = rule.movements if key.measure is None else rule.movements_of(key.measure.direction)
    return len(movements) * (2 if rule.kind == "distribution" else 1)
