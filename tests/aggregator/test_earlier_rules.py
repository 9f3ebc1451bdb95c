"""Rules that compare each value with all earlier ones: what fires, what is normal, and what is learned."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.support.event_columns import columns_of
from tests.support.metric_events import event

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts.earlier_baseline import EarlierBaseline
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.settings.alerting import DEFAULT_RULES, ClusterSettings
from ragtide_schemas import MetricEvent

METRIC = "trace.adherence"


def rule(**fields: Any) -> AlertRule:
    return AlertRule(**{"name": "r", "kind": "drift", "metric": METRIC, "baseline": "earlier", **fields})


def answers(*stretches: tuple[int, float], seed: int = 1, **changes: Any) -> list[MetricEvent]:
    """Return answers of which a share is supported, one stretch after the other."""
    rng = np.random.default_rng(seed)
    scores = [float(rng.random() < share) for n, share in stretches for _ in range(n)]
    return [event(20 * number, {METRIC: score}, **changes) for number, score in enumerate(scores)]


def state_of(events: Sequence[MetricEvent], *rules: AlertRule, **options: Any) -> AggregatorState:
    state = AggregatorState(StateOptions(rules=rules, **options))
    state.apply_columns(columns_of(events))
    return state


def alerts_of(events: Sequence[MetricEvent], *rules: AlertRule, **options: Any) -> list[Alert]:
    return list(state_of(events, *rules, **options).take_changes().alerts)


def baseline_of(state: AggregatorState) -> EarlierBaseline:
    (row,) = (row for row, key in enumerate(state.keys) if key.metric == METRIC)
    baseline = state.rules_of(row)[0].baseline
    assert isinstance(baseline, EarlierBaseline)
    return baseline


def test_a_fall_fires_with_the_mean_of_all_answers_before_the_change() -> None:
    events = answers((400, 0.9), (100, 0.4))
    (alert,) = alerts_of(events, rule())
    scores = [float(one.scores[METRIC]) for one in events]
    assert alert.normal_n is not None
    assert alert.observed_n is not None
    assert (alert.status, alert.direction, alert.baseline_source) == ("firing", "fall", "earlier")
    # What was before and what came since, recomputed from the answers.
    before = scores[: alert.normal_n]
    since = scores[alert.normal_n : alert.normal_n + alert.observed_n]
    assert alert.normal == alert.baseline == pytest.approx(np.mean(before))
    assert alert.observed == pytest.approx(np.mean(since))
    assert abs(alert.normal_n - 400) <= 10
    assert alert.observed_n < 40
    assert alert.limit == pytest.approx(np.mean(before) - 0.02)
    assert len(alert.worst_interaction_ids) == 5
    assert f"the mean of {alert.normal_n} answers before" in alert.message


def test_it_compares_from_the_31st_answer_on() -> None:
    (alert,) = alerts_of(answers((60, 0.95), (60, 0.0)), rule())
    assert alert.normal_n is not None
    assert alert.normal_n <= 62


def test_an_alert_resolves_when_two_thirds_of_the_change_are_back() -> None:
    fallen = answers((400, 0.9), (300, 0.4))
    assert [one.status for one in alerts_of([*fallen], rule())] == ["firing"]
    half = alerts_of(answers((400, 0.9), (300, 0.4), (600, 0.6)), rule())
    assert [one.status for one in half] == ["firing"]
    fired, resolved = alerts_of(answers((400, 0.9), (300, 0.4), (600, 0.88)), rule())
    assert (fired.status, resolved.status) == ("firing", "resolved")
    assert resolved.normal == fired.normal


def test_a_fault_does_not_become_normal() -> None:
    short = baseline_of(state_of(answers((400, 0.9), (200, 0.2)), rule()))
    long = baseline_of(state_of(answers((400, 0.9), (2_000, 0.2)), rule()))
    assert (short.n, short.total) == (long.n, long.total)
    assert 400 < short.n < 450


def test_a_metric_that_was_always_good_may_fall() -> None:
    (alert,) = alerts_of(answers((500, 1.0), (60, 0.5)), rule())
    assert alert.normal == 1.0


def test_a_rise_fires_where_lower_is_better() -> None:
    rng = np.random.default_rng(3)
    empty = [*[0.0] * 300, *(float(rng.random() < 0.3) for _ in range(60))]
    events = [event(20 * number, {"response.empty": one}) for number, one in enumerate(empty)]
    (alert,) = alerts_of(events, *DEFAULT_RULES)
    assert (alert.rule, alert.direction, alert.normal) == ("empty-response-rise", "rise", 0.0)


def test_a_change_that_does_not_matter_does_not_fire() -> None:
    rng = np.random.default_rng(5)
    scores = [*rng.beta(80, 20, 1_500), *(rng.beta(80, 20, 3_000) - 0.01)]
    events = [event(20 * number, {METRIC: float(max(score, 0.0))}) for number, score in enumerate(scores)]
    assert alerts_of(events, rule()) == []
    (alert,) = alerts_of(events, rule(name="finer", baseline=0.8, min_effect=0.0))
    assert alert.rule == "finer"


def test_a_number_that_hardly_spreads_may_fall_a_little_and_not_much() -> None:
    def scored(mean: float, n: int, seed: int) -> list[float]:
        drawn = np.random.default_rng(seed).normal(mean, 0.004, n)
        return [float(score) for score in np.clip(drawn, 0.0, 1.0)]

    def alerts_after(mean: float) -> list[Alert]:
        scores = [*scored(0.98, 300, 1), *scored(mean, 600, 2)]
        return alerts_of([event(20 * number, {METRIC: score}) for number, score in enumerate(scores)], rule())

    assert alerts_after(0.97) == []
    (alert,) = alerts_after(0.5)
    assert alert.observed_n is not None
    assert alert.observed_n < 30
    assert alert.observed == pytest.approx(0.5, abs=0.05)


def test_day_and_night_do_not_fire_the_default_rule_on_match() -> None:
    rng, a_day, match = np.random.default_rng(11), 3_000, "retrieval.match"
    means = 0.5 + 0.03 * np.sin(2 * np.pi * np.arange(6 * a_day) / a_day)
    scores = np.clip(rng.normal(means, 0.2), 0.0, 1.0)
    events = [event(int(28.8 * number), {match: float(score)}) for number, score in enumerate(scores)]
    sharp = rule(name="sharp", metric=match)
    fired = [one.rule for one in alerts_of(events, *DEFAULT_RULES, sharp) if one.status == "firing"]
    assert set(fired) == {"sharp"}


def test_sessions_count_as_clusters_and_by_their_first_answers() -> None:
    rng, events = np.random.default_rng(9), []
    for session in range(160):
        level = float(rng.random() < (0.9 if session < 120 else 0.1))
        events += [
            event(200 * session + 20 * turn, {METRIC: level}, session_id=f"s{session}") for turn in range(3)
        ]  # fmt: skip
    (alert,) = alerts_of(events, rule(), clusters=ClusterSettings(quiet_s=30))
    assert alert.observed_of == "first_answers"


@pytest.mark.parametrize(
    ("labeler", "watched"), [(None, True), ("judge", False), ("local", True), ("!local", False), ("!judge", True)]
)
def test_a_rule_watches_the_labeler_that_it_names(labeler: str | None, watched: bool) -> None:
    alerts = alerts_of(answers((300, 0.9), (80, 0.2), labeler="local"), rule(labeler=labeler))
    assert bool(alerts) is watched


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"learn_n": 100}, "leave it out"),
        ({"min_effect": 0.01}, "needs at least 0.02"),
        ({"kind": "threshold", "target": 0.5}, "belongs to a drift rule"),
        ({"kind": "rmse"}, "use kind"),
        ({"kind": "distribution"}, "use kind"),
        ({"adjust": "lang"}, "exclude each other"),
        ({"labeler": "!"}, "labeler"),
        ({"kind": "agreement", "statistic": "kappa", "run_length": 1000}, "one baseline"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_what_to_do(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rule(**fields)
