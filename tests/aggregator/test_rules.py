"""Every kind of alert rule through the state: it fires when it should, once, and says what moved."""

from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each
from tests.support.metric_events import START, adherence, beta, event

from ragtide import Alert, AlertRule
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.settings.alerting import BudgetSettings
from ragtide_schemas import MetricEvent

pytestmark = pytest.mark.simulation

METRIC = "trace.adherence"
HOUR = 3600


def rule(**fields: Any) -> AlertRule:
    return AlertRule(**{"name": "r", "kind": "drift", "metric": METRIC, **fields})


def run(events: list[MetricEvent], *rules: AlertRule, budget: BudgetSettings | None = None) -> list[Alert]:
    state = AggregatorState(StateOptions(rules=rules, budget=budget or BudgetSettings()))
    for metric_event in events:
        state.apply(metric_event)
    return list(state.take_changes().alerts)


def graded(errors: Any, first: int = 0) -> list[MetricEvent]:
    return [
        event(first + number, {METRIC: 0.5 + error}, gold_scores={METRIC: 0.5}) for number, error in enumerate(errors)
    ]


def uniform_errors(size: float, n: int, seed: int) -> Any:
    return size * np.random.default_rng(seed).uniform(-1, 1, n)


def spread(half: float, n: int, seed: int) -> Any:
    return 0.6 + half * np.random.default_rng(seed).choice([-1.0, 1.0], n)


FALL = [*adherence(beta(0.85, 300, 1)), *adherence(beta(0.5, 100, 2), first=300)]
RISE = [*adherence(beta(0.5, 300, 3)), *adherence(beta(0.85, 100, 4), first=300)]
FALL_AND_BACK = [*FALL, *adherence(beta(0.9, 400, 5), first=400)]
WIDER = [*adherence(spread(0.05, 400, 6)), *adherence(spread(0.35, 200, 7), first=400)]
NARROWER = [*adherence(spread(0.35, 400, 8)), *adherence(spread(0.05, 400, 9), first=400)]
WORSE_JUDGE = [*graded(uniform_errors(0.2, 400, 10)), *graded(uniform_errors(0.5, 200, 11), first=400)]

EMPTY_FROM_300 = [event(n, {"retrieval.empty": float(n >= 300 and n % 2 == 0)}) for n in range(400)]

Case = tuple[list[MetricEvent], AlertRule, tuple[str, str]]
"""Events, a rule, and what its alert says."""

CASES: dict[str, Case] = {
    # Normal is exactly 0 here, without any spread.
    "drift, from never": (EMPTY_FROM_300, rule(metric="retrieval.empty", learn_n=200), ("rise", "mean")),
    "both, falling": (FALL, rule(direction="both", baseline=0.85), ("fall", "mean")),
    "both, rising": (RISE, rule(direction="both", baseline=0.5), ("rise", "mean")),
    "both, learned": (FALL, rule(direction="both", learn_n=200), ("fall", "mean")),
    "distribution, wider": (WIDER, rule(kind="distribution", learn_n=200), ("rise", "spread")),
    "distribution, narrower": (NARROWER, rule(kind="distribution", learn_n=300, min_effect=0.01), ("fall", "spread")),
    # A mean that moves also widens the spread about the old one, and here that is found first.
    "distribution, mean": (
        FALL, rule(kind="distribution", baseline=0.85, baseline_spread=0.12, min_effect=0.05), ("rise", "spread"),
    ),
    "rmse, target": (WORSE_JUDGE, rule(kind="rmse", target=0.18), ("rise", "rmse")),
    "rmse, baseline": (WORSE_JUDGE, rule(kind="rmse", baseline=0.12), ("rise", "rmse")),
    "rmse, learned": (WORSE_JUDGE, rule(kind="rmse", learn_n=200), ("rise", "rmse")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_rule_fires_once_and_says_what_moved(case: Case) -> None:
    events, one, (direction, quantity) = case
    alerts = run(events, one)
    assert [(alert.status, alert.direction, alert.quantity) for alert in alerts] == [("firing", direction, quantity)]
    (alert,) = alerts
    changed = events.index(next(e for e in events if e.occurred_at.timestamp() - START.timestamp() >= 300))
    assert alert.fired_at >= events[changed].occurred_at
    assert alert.n == 1 + [e.occurred_at for e in events].index(alert.fired_at)


"""Cases whose restarts after every event are no heavy tests."""


STEADY = {
    "both": (adherence(beta(0.85, 3000, 12)), rule(direction="both", learn_n=100)),
    "distribution": (adherence(beta(0.7, 3000, 13)), rule(kind="distribution", learn_n=100)),
    "rmse": (graded(uniform_errors(0.2, 3000, 14)), rule(kind="rmse", learn_n=100)),
}


@pytest.mark.parametrize("case", STEADY.values(), ids=STEADY.keys())
def test_steady_traffic_fires_nothing(case: tuple[list[MetricEvent], AlertRule]) -> None:
    assert run(*case) == []


def test_an_error_is_told_as_rmse_in_the_metrics_unit() -> None:
    (alert,) = run(WORSE_JUDGE, rule(kind="rmse", target=0.18, min_effect=0.0))
    assert alert.metric == METRIC
    assert alert.baseline == pytest.approx(0.18)
    assert alert.baseline_source == "target"
    since = [e for e in WORSE_JUDGE if alert.began_at <= e.occurred_at <= alert.fired_at]  # type: ignore[operator]
    squares = [(e.scores[METRIC] - 0.5) ** 2 for e in since]
    assert alert.observed == pytest.approx(np.sqrt(np.mean(squares)))
    assert alert.observed_lower < alert.observed < alert.observed_upper  # type: ignore[operator]
    assert "RMSE of trace.adherence of shop rose" in alert.message


def test_a_spread_is_told_as_a_standard_deviation() -> None:
    (alert,) = run(WIDER, rule(kind="distribution", learn_n=200))
    # About the mean of the first values, not about the middle of the range.
    assert alert.observed == pytest.approx(0.35, abs=0.008)
    # On the lenient side of 0.05, learned from 100 values.
    assert 0.05 < alert.baseline < 0.2  # type: ignore[operator]
    assert "standard deviation" in alert.message


def test_a_rule_in_both_directions_resolves_by_the_mirror_of_what_fired() -> None:
    fired, resolved = run(FALL_AND_BACK, rule(direction="both", baseline=0.88))
    assert (fired.status, resolved.status, resolved.direction) == ("firing", "resolved", "fall")
    assert fired.alert_id == resolved.alert_id


def test_both_directions_share_the_run_length_of_the_rule() -> None:
    both, fall, alone = (
        run(FALL, rule(direction=direction, baseline=0.85, run_length=run_length))[0]
        for direction, run_length in (("both", 1e30), ("fall", 2e30), ("fall", 1e28))
    )
    assert both.fired_at == fall.fired_at
    assert both.run_length == pytest.approx(1e30)
    assert both.log_evidence == pytest.approx(fall.log_evidence)
    assert alone.fired_at < both.fired_at


def hourly(means: list[float], per_hour: int = 120) -> list[MetricEvent]:
    events = []
    for hour, mean in enumerate(means):
        for place, value in enumerate(beta(mean, per_hour, hour)):
            number = hour * HOUR + place * HOUR // per_hour
            events.append(event(number, {METRIC: float(value)}))
    return events


WINDOWED = rule(baseline_window="1h", learn_n=100)


def test_a_baseline_of_the_window_before_moves_along_and_fires_on_a_sudden_fall() -> None:
    slowly = hourly([0.9, 0.87, 0.84, 0.81, 0.78, 0.75])
    assert run(slowly, WINDOWED) == []
    alerts = run([*slowly, *hourly([0.75] * 6 + [0.3])[6 * 120 :]], WINDOWED)
    assert [alert.status for alert in alerts] == ["firing"]
    (alert,) = alerts
    assert alert.baseline_source == "window"
    # On the lenient side of the last hour's mean of 0.75.
    assert 0.6 < alert.baseline < 0.75  # type: ignore[operator]
    assert "as in the 1h before" in alert.message


def test_spread_and_error_have_baselines_of_windows_too() -> None:
    def hours(*halves: float) -> list[tuple[int, float]]:
        return [
            (hour * HOUR + 30 * place, float(value))
            for hour, half in enumerate(halves)
            for place, value in enumerate(spread(half, 120, hour))
        ]

    wider = [event(number, {METRIC: value}) for number, value in hours(0.05, 0.06, 0.07, 0.35)]
    crowd = rule(kind="distribution", baseline_window="1h", learn_n=100)
    (alert,) = run(wider, crowd)
    assert (alert.quantity, alert.direction, alert.baseline_source) == ("spread", "rise", "window")
    assert alert.fired_at.hour == 3
    errors = [
        event(number, {METRIC: value}, gold_scores={METRIC: 0.6}) for number, value in hours(0.1, 0.12, 0.14, 0.4)
    ]
    (alert,) = run(errors, rule(kind="rmse", baseline_window="1h", learn_n=100))
    assert (alert.quantity, alert.direction, alert.baseline_source) == ("rmse", "rise", "window")
    assert alert.fired_at.hour == 3


def test_no_error_is_beyond_the_error_of_a_bad_window_until_a_better_window() -> None:
    def hours(*errors: float) -> list[Any]:
        scores = [
            (hour, place, float(37 * place % 100 < 100 * error))
            for hour, error in enumerate(errors)
            for place in range(200)
        ]
        return [
            event(hour * HOUR + 18 * place, {METRIC: score}, gold_scores={METRIC: 0.0}) for hour, place, score in scores
        ]

    errors = rule(kind="rmse", baseline_window="1h", learn_n=100, run_length=200, min_effect=0.05)
    assert run(hours(0.98, 0.98, 1.0), errors) == []
    (alert,) = run(hours(0.98, 0.98, 1.0, 0.1, 0.1, 1.0), errors)
    assert (alert.status, alert.fired_at.hour) == ("firing", 5)


def test_a_window_that_held_too_little_or_does_not_follow_leaves_the_baseline() -> None:
    few = [*hourly([0.9]), *[e for e in hourly([0.9, 0.4, 0.4])[120:] if e.occurred_at.minute < 10]]
    assert [alert.status for alert in run(few, WINDOWED)] == ["firing"]
    gap = [*hourly([0.9]), *hourly([0.9, 0.9, 0.9, 0.9, 0.4])[4 * 120 :]]
    assert run(gap, WINDOWED) == []


BUDGET = BudgetSettings(false_alarms=1.0, period="7d")


def test_with_a_budget_every_key_has_its_share_and_the_alert_says_so() -> None:
    (alert,) = run(FALL, rule(baseline=0.85), budget=BUDGET)
    assert alert.run_length == pytest.approx(20_000)
    assert "20,000" in alert.message
    # A run length of its own is not part of the budget.
    (own,) = run(FALL, rule(baseline=0.85, run_length=500), budget=BUDGET)
    assert own.run_length == pytest.approx(500)


def test_a_smaller_budget_alarms_later() -> None:
    found = [
        run(FALL, rule(baseline=0.85), budget=BudgetSettings(false_alarms=allowed, period="7d"))[0].fired_at
        for allowed in (100.0, 1.0, 0.0001)
    ]
    assert found[0] < found[1] < found[2]


def test_two_rules_on_one_key_and_one_on_its_segments_all_fire() -> None:
    rules = (
        rule(name="a", baseline=0.85),
        rule(name="b", kind="threshold", target=0.7),
        rule(name="c", baseline=0.85, segment="lang"),
    )
    german = [e.model_copy(update={"segments": {"lang": "de"}}) for e in FALL]
    alerts = run(german, *rules)
    assert sorted((alert.rule, alert.segment) for alert in alerts) == [("a", None), ("b", None), ("c", "lang=de")]


@for_each(
    "fields, words",
    [
        ({"kind": "threshold", "target": 0.5, "direction": "both"}, "one side"),
        ({"kind": "rmse", "direction": "fall"}, "rising error"),
        ({"kind": "rmse", "target": 1.5}, "never fire"),
        ({"kind": "rmse", "target": 0.2, "baseline": 0.1}, "exclude each other"),
        ({"kind": "distribution", "direction": "fall"}, "both directions"),
        ({"kind": "distribution", "baseline": 0.5}, "baseline_spread goes with baseline"),
        ({"kind": "distribution", "target": 0.5}, "target belongs"),
        ({"baseline": 0.5, "baseline_window": "1d"}, "exclude each other"),
        ({"baseline_window": "soon"}, "baseline_window"),
        ({"kind": "threshold", "target": 0.5, "baseline_window": "1d"}, "belongs to a drift rule"),
        ({"detector": "guess"}, "detector"),
        ({"metric": "trace.rmse_aggregation"}, "no better or worse"),
        ({"metric": "rmse.trace.adherence"}, "use kind rmse with the metric trace.adherence"),
        ({"metric": "labeling.latency_s"}, "no rule can use"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_what_to_do(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rule(**fields)


def test_the_severity_of_a_rule_is_on_its_alerts_and_stays_until_they_resolve() -> None:
    page = rule(baseline=0.85, severity="page")
    fired = run(FALL, page)
    assert [one.severity for one in fired] == ["page"]
    state, stored = AggregatorState(StateOptions(rules=(page,))), dict[str, bytes]()
    for one in FALL:
        state.apply(one)
    stored |= state.take_changes().rows
    # Another severity is the same rule: its alert goes on, and it keeps what it learned.
    changed = AggregatorState.from_fields(StateOptions(rules=(rule(baseline=0.85, severity="info"),)), stored)
    for one in FALL_AND_BACK[len(FALL) :]:
        changed.apply(one)
    (resolved,) = changed.take_changes().alerts
    assert (resolved.status, resolved.alert_id, resolved.severity) == ("resolved", fired[0].alert_id, "page")
