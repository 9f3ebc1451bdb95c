"""Simulates how many interactions a drift rule needs to see a failure, with the rule itself on resampled scores."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.alerts.rule_state import DEFAULT_RUN_LENGTH, RuleState
from ragtide_aggregator.alerts.rule_values import LearnedValues
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_schemas import AlertRule

Floats = NDArray[np.float64]

RUNS: Final = 100
"""Simulated streams."""

WITHIN: Final = 2_000
"""Interactions after the change in which an alert is awaited."""

MOST_LEARNED: Final = 2.5
"""Interactions from which a rule may learn, in units of its `learn_n`; it goes on learning while its limit is outside
of the metric's range."""

_STEP: Final = 200


@dataclass(frozen=True, slots=True)
class Delay:
    """How soon a drift rule fires after every interaction is spoilt."""

    median: int | None
    """Interactions until the alert in the median stream; None if at most half of the streams have one in time."""
    late: int | None
    """Interactions until 95% of the streams have an alert; None if fewer have one in time."""
    within: int
    """Interactions in which an alert was awaited."""
    alerted: float
    """Share of the streams with an alert in time."""


def simulated_delay(
    clean: Floats,
    spoilt: Floats,
    weights: Floats,
    key: EstimateKey,
    *,
    seed: int,
    rule: AlertRule | None = None,
    runs: int = RUNS,
) -> Delay:
    """Return the delay of a drift rule, with a mean of 10,000 values between false alarms unless it states another.

    The rule learns its baseline from clean scores, drawn with replacement. From then on every score is a spoilt one,
    and a spoilt interaction without a score counts as an interaction.

    Args:
        clean: n scores, finite.
        spoilt: scores of the same interactions after they were spoilt, NaN for an absent one.
        weights: probability with which each is drawn.
        key: of the metric, with its range and direction.
        rule: a drift rule on the key that learns its baseline; the default rule unless given.
        runs: number of simulated streams.
    """
    rng = np.random.default_rng(seed)
    lowest, highest = key.value_range
    clean, spoilt = ((scores - lowest) / (highest - lowest) for scores in (clean, spoilt))
    table = DetectorTable()
    rule = rule or AlertRule(name="drift", kind="drift", metric=key.metric)
    rule = rule if rule.run_length else rule.model_copy(update={"run_length": DEFAULT_RUN_LENGTH})
    delays = np.full(runs, WITHIN, dtype=np.int64)
    run_of: dict[int, int] = {}
    for run in range(runs):
        state = RuleState(rule, key, table)
        drawn = rng.choice(clean, int(MOST_LEARNED * rule.learn_n), p=weights).tolist()
        if any(state.learn(LearnedValues(value, value * value)) for value in drawn):
            run_of |= {detector.row: run for detector in state.detectors if detector.active}
    streams = rng.choice(spoilt, (runs, WITHIN), p=weights)
    for start in range(0, WITHIN, _STEP):
        rows = np.array([row for row, run in run_of.items() if delays[run] == WITHIN], dtype=np.intp)
        if not rows.size:
            break
        values = streams[[run_of[row] for row in rows.tolist()], start : start + _STEP]
        there = ~np.isnan(values)
        places = np.broadcast_to(np.arange(start, start + values.shape[1]), values.shape)[there]
        alarms, _ = table.update(np.broadcast_to(rows[:, None], values.shape)[there], values[there], places)
        for alarm in alarms:
            run = run_of[alarm.row]
            delays[run] = min(delays[run], int(places[alarm.position]))
    delays.sort()
    median, late = (int(delays[place]) + 1 for place in (runs // 2, -(-95 * runs // 100) - 1))
    return Delay(
        median=median if median <= WITHIN else None,
        late=late if late <= WITHIN else None,
        within=WITHIN,
        alerted=float((delays < WITHIN).mean()),
    )
