"""How far a mean moves with the hour of the day, of rules whose baseline is one number."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.support.metric_events import event

from ragtide import AlertRule
from ragtide_aggregator.estimates.assumptions import rounded_up, swinging_rules
from ragtide_aggregator.maintenance.repair import dropped_field, may_be_dropped
from ragtide_aggregator.maintenance.repartitioned_fields import pipeline_of
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import MetricEvent

ADHERENCE = "trace.adherence"
HOURS = 8


def days(n: int, swing: float, mean: float = 0.8) -> list[MetricEvent]:
    """Return days with values at eight hours, half of them below the mean and half above."""
    rng = np.random.default_rng(1)
    return [
        event(
            day * 86_400 + hour * 3 * 3_600 + 30 * place,
            {ADHERENCE: float(np.clip(mean + swing * (1 if hour < HOURS // 2 else -1) + rng.normal(0, 0.1), 0, 1))},
            segments={"lang": "de"},
        )
        for day in range(n)
        for hour in range(HOURS)
        for place in range(20)
    ]


def rule(name: str = "r", **fields: Any) -> AlertRule:
    return AlertRule(**{"name": name, "kind": "drift", "metric": ADHERENCE, **fields})


def state_of(events: Sequence[MetricEvent], *rules: AlertRule) -> AggregatorState:
    state = AggregatorState(StateOptions(rules=rules))
    for one in events:
        state.apply(one)
    return state


def test_a_rule_is_told_when_the_mean_swings_by_more_than_its_min_effect() -> None:
    rules = (
        rule("small"),
        rule("large", min_effect=0.08),
        rule("hours", baseline="seasonal"),
        rule("floor", kind="threshold", target=0.5),
        rule("hour-before", baseline_window="1h"),
        rule("day-before", baseline_window="1d"),
        rule("lang", segment="lang"),
        rule("elsewhere", pipeline="wiki"),
    )
    found = swinging_rules(state_of(days(8, 0.05), *rules), rules)
    assert [one.rule for one in found] == ["day-before", "small"]
    assert found[0]._replace(swing=0.0) == ("day-before", "shop", None, ADHERENCE, "fall", 0.0, 0.06)
    assert found[0].swing == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(("n", "swing"), [(8, 0.0), (8, 0.01), (3, 0.05)])
def test_no_rule_is_told_without_a_swing_or_before_it_is_known(n: int, swing: float) -> None:
    assert swinging_rules(state_of(days(n, swing), rule()), (rule(),)) == []


def test_a_reader_without_rules_and_a_restart_know_the_same_swing() -> None:
    state = state_of(days(8, 0.05), rule())
    expected = swinging_rules(state, (rule(),))
    fields = dict(state.take_changes().rows)
    for options in (StateOptions(), StateOptions(rules=(rule(),))):
        assert swinging_rules(AggregatorState.from_fields(options, fields), (rule(),)) == expected


def test_the_sums_of_the_hours_move_with_their_pipeline_and_are_dropped_with_their_key() -> None:
    fields = dict(state_of(days(1, 0.0), rule()).take_changes().rows)
    # The whole pipeline is measured, and not its segments.
    (season,) = (name for name in fields if name.startswith(CheckpointField.SEASON))
    assert pipeline_of(season, fields[season]) == "shop"
    assert may_be_dropped(season)
    estimate = CheckpointField.ESTIMATE + season.removeprefix(CheckpointField.SEASON)
    assert season in dropped_field(fields, estimate).fields


def test_a_key_without_rules_is_not_measured() -> None:
    fields = state_of(days(1, 0.0), rule(metric="trace.context_relevance")).take_changes().rows
    assert not any(name.startswith(CheckpointField.SEASON) for name in fields)


def test_one_digit_is_enough_for_a_suggestion() -> None:
    assert [rounded_up(one) for one in (0.05, 0.0501, 0.3, 0.0999, 12.0)] == [0.05, 0.06, 0.3, 0.1, 20.0]
