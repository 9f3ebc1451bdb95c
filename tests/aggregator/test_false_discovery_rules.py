"""Alert rules with a bounded share of false alarms: values of all keys count in one order."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.event_columns import columns_of
from tests.support.metric_events import event

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts.evaluator import RuleEvaluator
from ragtide_aggregator.alerts.levels import FalseDiscoveryLevel
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.maintenance.repartitioned_fields import repartitioned
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.drift.evidence import BETS, LARGEST_BET, SMALLEST_BET
from ragtide_aggregator.statistics.drift.false_discovery import RESERVE, AlarmLevel
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.alerting import BudgetSettings, ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent

ADHERENCE, RELEVANCE = "trace.adherence", "trace.context_relevance"
MINUTE = 60_000
RATE = BudgetSettings(false_discovery_rate=0.9, period="10m")


def bernoulli(means: Sequence[float], pipelines: Sequence[str], n: int, seed: int = 0) -> list[MetricEvent]:
    """Return answers of pipelines in turn."""
    rng = np.random.default_rng(seed)
    return [
        event(n_, {ADHERENCE: float(rng.random() < mean)}, pipeline=name)
        for n_, (name, mean) in enumerate(list(zip(pipelines, means, strict=True)) * n)
    ]


def by_definition(events: Sequence[MetricEvent], limit: float, rate: float, period_ms: int) -> list[tuple[str, float]]:
    """Return the interactions that alarm, each with the level reached in costs, from the definition of the procedure.

    A rule on each pipeline, whose alarms do not resolve.
    """
    bets, level = np.geomspace(SMALLEST_BET, LARGEST_BET, BETS), AlarmLevel(rate, period_ms)
    m: dict[str, Any] = {}
    found, silent = [], set()
    for one in events:
        time_ms = int(one.occurred_at.timestamp() * 1000)
        if level.begins(time_ms):
            factor = level.begin(time_ms, sum(m[name].mean() for name in m if name not in silent))
            m = {name: value * factor for name, value in m.items()}
        cost = float(level.spend(1)[0])
        if one.pipeline in silent:
            continue
        x = one.scores[ADHERENCE]
        m[one.pipeline] = (m.get(one.pipeline, np.zeros(BETS)) + cost) * (1 + (limit - x) / (1 - limit) * bets)
        if m[one.pipeline].mean() >= 1 / (level.raised + 1):
            found.append((one.interaction_id, level.level / cost))
            level.count(1)
            silent.add(one.pipeline)
    return found


def test_alarms_come_at_the_level_that_earlier_alarms_of_all_keys_left() -> None:
    names = [f"p{number}" for number in range(12)]
    events = bernoulli([0.2, 0.3, 0.4, 0.4, 0.4, *[0.8] * 7], names, 250)
    rule = AlertRule(
        name="r", kind="threshold", metric=ADHERENCE, target=0.8, min_effect=0, hysteresis=0.19, resolve_run_length=1e9
    )
    state = AggregatorState(
        StateOptions(rules=(rule,), budget=BudgetSettings(false_discovery_rate=0.2, period="10m"), partitions=2)
    )
    assert state.apply_columns(columns_of(events)) == []
    alerts = state.take_changes().alerts
    times = {one.interaction_id: one.occurred_at for one in events}
    expected = by_definition(events, 0.8, 0.1, 10 * MINUTE)
    assert len({round(level) for _, level in expected}) >= 3
    assert [alert.fired_at for alert in alerts] == [times[name] for name, _ in expected]
    assert [alert.run_length for alert in alerts] == pytest.approx([level for _, level in expected])
    # Each partition has half of the rate; an alert states that of the deployment.
    assert {alert.false_discovery_rate for alert in alerts} == {0.2}
    assert all("At most 20% of alarms are false, on average" in alert.message for alert in alerts)


def test_a_rule_with_a_run_length_keeps_its_own_promise_and_lowers_no_level() -> None:
    events = bernoulli([0.6, 0.6], ["shop", "wiki"], 120)
    own = AlertRule(name="own", kind="drift", metric=ADHERENCE, baseline=0.8, run_length=200, resolve_run_length=10)
    shared = AlertRule(name="shared", kind="drift", metric=ADHERENCE, baseline=0.8)

    def alerts(*rules: AlertRule, **options: Any) -> list[Alert]:
        state = AggregatorState(StateOptions(rules=rules, **options))
        state.apply_columns(columns_of(events))
        return list(state.take_changes().alerts)

    both = alerts(own, shared, budget=RATE)
    by_itself = [one for one in both if one.rule == "own"]
    assert by_itself == alerts(own)
    assert {one.false_discovery_rate for one in by_itself} == {None}
    assert "one false alarm in 200" in by_itself[0].message
    assert [one for one in both if one.rule == "shared"] == alerts(shared, budget=RATE) != []


def test_a_resolution_is_no_alarm_and_states_the_same_rate() -> None:
    events = [*bernoulli([0.3], ["shop"], 60), *bernoulli([1.0], ["shop"], 400)]
    events = [event(number, dict(one.scores)) for number, one in enumerate(events)]
    state, rules = watching(StateOptions(rules=(RULE,), budget=RATE), events)
    fired, resolved = state.take_changes().alerts
    assert (fired.status, resolved.status) == ("firing", "resolved")
    assert resolved.false_discovery_rate == fired.false_discovery_rate == 0.9
    assert alarms(rules).raised == 1


def watching(options: StateOptions, events: Sequence[MetricEvent]) -> tuple[AggregatorState, RuleEvaluator]:
    state = AggregatorState(options)
    state.apply_columns(columns_of(events))
    rules = state._alerts.rules
    return state, rules


def alarms(rules: RuleEvaluator) -> AlarmLevel:
    assert isinstance(rules.level, FalseDiscoveryLevel)
    return rules.level.alarms


def held(rules: RuleEvaluator) -> float:
    return float(rules._table.evidence(np.arange(len(rules._table))).sum())


RULE = AlertRule(name="r", kind="drift", metric=ADHERENCE, baseline=0.8)
LONG = StateOptions(rules=(RULE,), budget=BudgetSettings(false_discovery_rate=0.1, period="1h"))


def test_evidence_handed_on_to_a_period_is_a_quarter_of_the_rate_at_most() -> None:
    events = bernoulli([0.55] * 6, [f"p{number}" for number in range(6)], 40)
    state, rules = watching(LONG, events)
    assert held(rules) > 0.1
    state.take_changes()
    state.apply(event(3600, {ADHERENCE: 1.0}, pipeline="another"))
    # The rows of all watches are written again.
    assert sum(name.startswith(CheckpointField.RULE_STATE) for name in state.take_changes().rows) == 7
    assert held(rules) == pytest.approx(RESERVE * 0.1, rel=1e-3)
    assert alarms(rules).raised == 0


@pytest.mark.parametrize(
    "other",
    [
        replace(LONG, budget=BudgetSettings(false_discovery_rate=0.2, period="1h")),
        replace(LONG, budget=BudgetSettings(false_discovery_rate=0.1, period="1h"), partitions=2),
        replace(LONG, budget=BudgetSettings(false_discovery_rate=0.1, period="50m")),
        replace(LONG, budget=BudgetSettings(false_alarms=1.0, period="1h")),
        replace(LONG, budget=BudgetSettings()),
    ],
)
def test_with_other_settings_a_period_begins_anew(other: StateOptions) -> None:
    state, rules = watching(LONG, bernoulli([0.55] * 6, [f"p{number}" for number in range(6)], 40))
    fields = dict(state.take_changes().rows)
    # With the same settings the evidence stays.
    assert held(later(LONG, fields)[1]) == pytest.approx(held(rules), rel=1e-3)
    if other.budget.false_discovery_rate is None:
        between = AggregatorState.from_fields(other, fields)
        between.apply(event(300, {ADHERENCE: 1.0}, pipeline="another"))
        fields |= between.take_changes().rows
        other = LONG
    rate = other.budget.false_discovery_rate
    assert rate is not None
    assert held(later(other, fields)[1]) <= RESERVE * rate / other.partitions * 1.001


def later(options: StateOptions, fields: dict[str, bytes]) -> tuple[AggregatorState, RuleEvaluator]:
    """Return a state that is restored from fields, after another event."""
    state = AggregatorState.from_fields(options, fields)
    state.apply_columns(columns_of([event(301, {ADHERENCE: 1.0}, pipeline="another")]))
    rules = state._alerts.rules
    return state, rules


def test_after_a_repartition_every_partition_begins_a_period_with_its_share() -> None:
    state, _ = watching(LONG, bernoulli([0.55] * 6, [f"p{number}" for number in range(6)], 40))
    moved = repartitioned(Layout("ragtide", 1), Layout("ragtide", 2), {0: dict(state.take_changes().rows)})
    options = replace(LONG, budget=BudgetSettings(false_discovery_rate=0.1, period="1h"), partitions=2)
    for fields in moved.values():
        assert held(later(options, fields)[1]) <= RESERVE * 0.1 / 2 * 1.001


def test_the_costs_of_a_period_are_those_of_clusters_that_close_in_it() -> None:
    """A thousand answers that wait in open sessions have cost nothing yet."""
    clusters = ClusterSettings(size=50, quiet_s=604800, open_cap=1000)
    options = replace(LONG, clusters=clusters)
    waiting = [event(n, {ADHERENCE: 0.5}, session_id=f"s-{n % 30}") for n in range(1_000)]
    state, rules = watching(options, waiting)
    assert alarms(rules).spend(1)[0] == AlarmLevel(0.1, 1).spend(1)[0]
    state.apply_columns(columns_of([event(1_000 + n, {ADHERENCE: 0.5}, session_id="s-0") for n in range(50)]))
    assert 0 < held(rules) < 0.1
    fields = state.take_changes().rows
    assert not any(b"cost" in data for data in fields.values())


def test_the_rate_of_the_settings_is_shared_by_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_BUDGET_FALSE_DISCOVERY_RATE", "0.1")
    monkeypatch.setenv("RAGTIDE_BUDGET_PERIOD", "1d")
    options = state_options(Settings(partitions=4))
    assert (options.budget, options.partitions) == (BudgetSettings(false_discovery_rate=0.1, period="1d"), 4)


def test_levels_and_looks_of_a_table() -> None:
    def fresh() -> DetectorTable:
        table = DetectorTable()
        for _ in range(2):
            table.configure(table.add_row(), limit=0.9, direction="fall", run_length=1000)
        return table

    rows, values = np.array([0, 1] * 20), np.zeros(40)
    looks = np.repeat(np.arange(20), 2)
    table = fresh()
    alarms, left = table.update(rows, values, np.arange(40), levels=np.where(rows == 0, 0.25, 1.0), looks=looks)
    (alarm,) = alarms
    # The other row takes the value of the same look and no later one.
    assert alarm.row == 0
    assert alarm.position % 2 == 0
    assert left.tolist() == list(range(alarm.position + 2, 40))
    assert alarm.run_length == pytest.approx(250)
    assert alarm.log_evidence >= np.log(250)
    other = fresh()
    other.update(rows[: alarm.position + 2], values[: alarm.position + 2], np.arange(alarm.position + 2))
    assert table.to_bytes(1) == other.to_bytes(1)
    other.scale(np.array([1]), 0.5)
    assert other.evidence(np.array([1]))[0] == table.evidence(np.array([1]))[0] / 2


def test_an_alarm_at_a_cluster_without_costs_has_a_run_length() -> None:
    """The values of such a cluster came before a budget was set."""
    table = DetectorTable()
    row = np.array([table.add_row()])
    table.configure(0, limit=0.9, direction="fall", run_length=100)
    size, mean, tag = np.array([50]), np.zeros(1), np.zeros(1, dtype=np.int64)
    for _ in range(50):
        assert table.update(row, mean, tag, costs=np.array([1e-30]), sizes=size)[0] == [] or pytest.fail("too early")
        if table.evidence(row)[0] > 0.2:
            break
    (alarm,), _ = table.update(row, mean, tag, costs=np.zeros(1), sizes=size)
    assert alarm.run_length == 100
