"""Alert rules whose baseline is one number while the mean moves with the hour of the day. No clock, no I/O."""

from collections.abc import Iterable
from math import ceil, floor, log10
from typing import Final, NamedTuple

import numpy as np

from ragtide_schemas import AlertRule, Movement
from ragtide_schemas.alert_rule import SEASONAL, duration_ms

from ..alerts.rule_state import matches
from ..state.state import AggregatorState

DAY_MS: Final = 86_400_000

CERTAIN_SHARE: Final = 0.5
"""Share of the hours' deviations that luck does not explain, from which a swing is told."""


class SwingingRule(NamedTuple):
    """A rule on a pipeline whose mean swings by more than the rule's `min_effect`."""

    rule: str
    pipeline: str
    run: str | None
    metric: str
    movement: Movement
    swing: float
    """Distance of the lowest (for a rise: the highest) hour's mean from the mean of all hours, in the metric's unit."""
    min_effect: float
    """The `min_effect` that covers it: the swing, rounded up to one digit."""


def swinging_rules(state: AggregatorState, rules: Iterable[AlertRule]) -> list[SwingingRule]:
    """Return the rules that may fire because of day and night, the largest swing first."""
    plain = [one for one in rules if _has_one_baseline(one)]
    found = [one for row in range(len(state.keys)) if state.measures_swing(row) for one in _of_row(state, row, plain)]
    return sorted(found, key=lambda one: (-one.swing, one.rule, one.pipeline, one.run or ""))


def _has_one_baseline(rule: AlertRule) -> bool:
    if rule.kind not in ("drift", "distribution") or rule.baseline == SEASONAL:
        return False
    # A shorter window moves along with the hour.
    return rule.baseline_window is None or duration_ms(rule.baseline_window) >= DAY_MS


def _of_row(state: AggregatorState, row: int, rules: Iterable[AlertRule]) -> Iterable[SwingingRule]:
    key = state.keys[row]
    lowest, highest = key.value_range
    for rule in rules:
        if not matches(rule, key):
            continue
        for movement in rule.movements if key.measure is None else rule.movements_of(key.measure.direction):
            swings = state.swings(np.array([row]), movement)
            swing = float(swings.estimate[0]) * (highest - lowest)
            if swings.share[0] >= CERTAIN_SHARE and swing > rule.min_effect:
                yield SwingingRule(rule.name, key.pipeline, key.run, key.metric, movement, swing, rounded_up(swing))


def rounded_up(number: float) -> float:
    """Return a positive number rounded up to one digit.

    >>> rounded_up(0.0412), rounded_up(0.05), rounded_up(3.1)
    (0.05, 0.05, 4.0)
    """
    unit = floor(log10(number))
    # A number that has one digit already stays, although its logarithm is not exact.
    size = 10.0**unit
    return round(ceil(number / size - 1e-9) * size, 12)
