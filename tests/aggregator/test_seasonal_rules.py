"""Rules with a seasonal baseline in the state: each hour of the day or of the week has its own normal mean."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.event_columns import columns_of
from tests.support.metric_events import START, event

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts.rule_state import RuleState
from ragtide_aggregator.alerts.seasonal_baseline import SeasonalBaseline
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import MetricEvent

METRIC = "trace.adherence"
HOUR, DAY = 3600, 86_400
CLUSTERS = ClusterSettings(size=4)


def rule(**fields: Any) -> AlertRule:
    return AlertRule(
        **{"name": "r", "kind": "drift", "metric": METRIC, "baseline": "seasonal", "run_length": 1000, **fields}
    )


def alerts_of(events: Sequence[MetricEvent], *rules: AlertRule, **options: Any) -> list[Alert]:
    state = AggregatorState(StateOptions(rules=rules, **options))
    state.apply_columns(columns_of(events))
    return list(state.take_changes().alerts)


def days(means: Sequence[tuple[float, float]], n: int = 150, seed: int = 1, **changes: Any) -> list[MetricEvent]:
    """Return days with two busy hours, 09:00 and 21:00 UTC, with these means."""
    rng = np.random.default_rng(seed)
    return [
        event(day * DAY + hour * HOUR + 20 * place, {METRIC: float(rng.random() < mean)}, **changes)
        for day, both in enumerate(means)
        for hour, mean in zip((9, 21), both, strict=True)
        for place in range(n)
    ]


NORMAL = (0.9, 0.6)


def test_day_and_night_do_not_fire_and_a_fall_below_the_hours_own_mean_does() -> None:
    steady = days([NORMAL] * 9)
    assert {one.rule for one in alerts_of(steady, rule(), rule(name="one", baseline=0.75))} == {"one"}
    # 0.65 is normal at night, and a fall at 09:00.
    fallen = days([*[NORMAL] * 9, (0.65, 0.6)])
    (alert,) = alerts_of(fallen, rule())
    assert (alert.status, alert.direction, alert.baseline_source) == ("firing", "fall", "seasonal")
    assert alert.fired_at == START + timedelta(days=9, hours=9, seconds=(alert.fired_at - START).seconds - 9 * HOUR)
    assert 0.75 < alert.baseline < 0.9  # type: ignore[operator]
    assert alert.observed < 0.75  # type: ignore[operator]
    assert f"Normal for 09:00 to 10:00 UTC is {alert.normal:.3f}, learned from 1,350 answers" in alert.message
    assert alert.normal == pytest.approx(0.9, abs=0.03)
    assert alert.limit == pytest.approx(alert.baseline - 0.02)  # type: ignore[operator]
    assert "learned in 9 days" in alert.message
    assert "no hour is worse than the same hour of earlier days by more than 0.02" in alert.message
    assert len(alert.worst_interaction_ids) == 5


def test_a_rule_waits_for_four_days_of_an_hour() -> None:
    def fired_on(day: int) -> list[int]:
        found = alerts_of(days([*[NORMAL] * day, *[(0.05, 0.05)] * 3]), rule())
        return [(one.fired_at - START).days for one in found if one.status == "firing"]

    assert fired_on(4) == [4]
    # The first bad day comes before the rule knows anything, and lowers what it learns.
    assert fired_on(3) == [4]


def test_hours_of_the_week_know_the_weekend() -> None:
    # 2026-11-21 is a Saturday.
    weeks = [*[(0.6, 0.6)] * 2, *[(0.95, 0.95)] * 5] * 6
    weekly, daily = rule(name="week", season="week"), rule(name="day")
    assert {one.rule for one in alerts_of(days(weeks, 40), weekly, daily)} == {"day"}
    (alert,) = alerts_of(days([*weeks, (0.6, 0.6), (0.6, 0.6), (0.5, 0.5)], 40), weekly)
    assert "Normal for Mondays 09:00 to 10:00 UTC" in alert.message
    assert "in 6 weeks" in alert.message


def learned(events: Sequence[MetricEvent], **options: Any) -> Any:
    """Return the number of values that each hour of the day has learned, and the alerts."""
    state = AggregatorState(StateOptions(rules=(rule(),), **options))
    state.apply_columns(columns_of(events))
    (at,) = (row for row, key in enumerate(state.keys) if key.metric == METRIC)
    season = state.rules_of(at)[0].baseline
    assert isinstance(season, SeasonalBaseline)
    return season.table.values(np.array([season.row]))[0], state.take_changes().alerts


def test_a_rule_that_is_firing_learns_nothing() -> None:
    def n(bad_days: int) -> tuple[int, int]:
        found, alerts = learned(days([*[NORMAL] * 6, *[(0.2, 0.2)] * bad_days], 60))
        return int(found.sum()), len(alerts)

    # It fires on the first bad day, and the values until then count.
    assert n(0) == (6 * 120 - 60, 0)
    assert n(2) == n(4)
    assert n(2)[0] < 6 * 120 + 60


def test_a_cluster_counts_to_the_hour_in_which_it_is_closed() -> None:
    """Sessions of two that stay open until the next hour's session begins: their values teach that hour."""
    events = [
        event(day * DAY + hour * HOUR + 3000, {METRIC: 1.0}, session_id=f"{day}-{hour}-{number}")
        for day in range(2)
        for hour in (9, 12)
        for number in range(3)
    ]
    n, _ = learned(events, clusters=CLUSTERS)
    # 09:00 of the first day is counted at 12:00, and 12:00 of the first day at 09:00 of the second.
    assert (n[12], n[9]) == (3, 3)
    assert n.sum() == 6


def test_an_rmse_rule_knows_the_error_of_each_hour() -> None:
    def errors(sizes: Sequence[tuple[float, float]]) -> list[MetricEvent]:
        rng = np.random.default_rng(5)
        return [
            event(day * DAY + hour * HOUR + 20 * place, {METRIC: 0.5 + size * rng.choice([-1, 1])},
                  gold_scores={METRIC: 0.5})
            for day, both in enumerate(sizes)
            for hour, size in zip((9, 21), both, strict=True)
            for place in range(100)
        ]  # fmt: skip

    one, steady = rule(kind="rmse"), [(0.1, 0.4)] * 8
    assert alerts_of(errors(steady), one) == []
    (alert,) = alerts_of(errors([*steady, (0.45, 0.4)]), one)
    assert (alert.quantity, alert.baseline_source, alert.fired_at.hour) == ("rmse", "seasonal", 9)
    assert 0.1 < alert.baseline < 0.45  # type: ignore[operator]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"baseline": 0.5, "season": "day"}, "season goes with baseline"),
        ({"season": "year"}, "season"),
        ({"baseline": "yearly"}, 'is no number: give the normal mean, "earlier" or "seasonal"'),
        ({"kind": "distribution"}, "use kind = "),
        ({"baseline_window": "1d"}, "baseline and baseline_window exclude each other"),
        ({"kind": "threshold", "target": 0.5}, "belongs to a drift rule"),
        ({"kind": "rmse", "target": 0.5}, "target and baseline exclude each other"),
    ],
)
def test_a_seasonal_rule_that_makes_no_sense_is_refused_with_what_to_do(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rule(**fields)


def test_a_changed_season_begins_anew() -> None:
    key = EstimateKey("shop", None, None, METRIC, "ragbench", "local", "1")
    fields = {RuleState(rule(season=season), key, DetectorTable()).field for season in (None, "day", "week")}
    assert len(fields) == 3
