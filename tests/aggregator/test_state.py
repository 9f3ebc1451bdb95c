from datetime import timedelta
from math import sqrt
from typing import Any

import numpy as np
import pytest
from tests.support.metric_events import START, adherence, beta, event

from ragtide import Alert, AlertRule, Estimate, InvalidEntryError
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.events.values import parts_of
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_schemas import JudgedScores, MetricEvent

THRESHOLD = AlertRule(name="floor", kind="threshold", metric="trace.adherence", target=0.7)
DRIFT = AlertRule(name="drift", kind="drift", metric="trace.adherence", learn_n=100)
GIVEN = AlertRule(name="given", kind="drift", metric="trace.adherence", baseline=0.85)


def run(rules: tuple[AlertRule, ...], events: list[MetricEvent]) -> list[Alert]:
    """Return the alerts of these events."""
    state = AggregatorState(StateOptions(rules=rules))
    for metric_event in events:
        state.apply(metric_event)
    return list(state.take_changes().alerts)


FALL = [*adherence(beta(0.85, 300, 1)), *adherence(beta(0.5, 100, 2), first=300)]
FALL_AND_BACK = [*FALL, *adherence(beta(0.9, 400, 3), first=400)]


@pytest.mark.parametrize("rule", [THRESHOLD, DRIFT, GIVEN], ids=lambda rule: rule.name)
def test_an_alert_fires_once_when_the_mean_falls_and_resolves_once_when_it_is_back(rule: AlertRule) -> None:
    fired, resolved = run((rule,), FALL_AND_BACK)
    assert (fired.status, resolved.status) == ("firing", "resolved")
    assert fired.alert_id == resolved.alert_id
    assert fired.fired_at == resolved.fired_at
    assert fired.resolved_at is None
    assert resolved.resolved_at is not None
    assert START.timestamp() + 300 <= fired.fired_at.timestamp() < START.timestamp() + 400
    assert resolved.resolved_at.timestamp() >= START.timestamp() + 400
    # The end of an alert is not the beginning of its change.
    assert fired.began_at is not None
    assert abs(fired.began_at.timestamp() - START.timestamp() - 300) <= 10
    assert resolved.began_at == fired.began_at


def test_the_times_of_an_alert_are_in_order_whatever_the_order_of_its_interactions() -> None:
    for seed in range(10):
        late = np.random.default_rng(seed).integers(-600, 600, len(FALL_AND_BACK))
        events = [
            one.model_copy(update={"occurred_at": one.occurred_at + timedelta(seconds=int(by))})
            for one, by in zip(FALL_AND_BACK, late, strict=True)
        ]
        fired, resolved = run((GIVEN,), events)
        for one in (fired, resolved):
            times = [at for at in (one.began_at, one.fired_at, one.resolved_at) if at is not None]
            assert times == sorted(times)


@pytest.mark.parametrize("rule", [THRESHOLD, DRIFT, GIVEN], ids=lambda rule: rule.name)
def test_steady_traffic_fires_nothing(rule: AlertRule) -> None:
    assert run((rule,), adherence(beta(0.85, 3000, 4))) == []


def test_a_second_fall_is_a_new_alert() -> None:
    again = [*FALL_AND_BACK, *adherence(beta(0.5, 100, 5), first=800)]
    alerts = run((THRESHOLD,), again)
    assert [alert.status for alert in alerts] == ["firing", "resolved", "firing"]
    assert alerts[2].alert_id != alerts[0].alert_id


def test_an_alert_says_what_happened_since_when_against_what_and_which_interactions() -> None:
    (alert,) = run((THRESHOLD,), FALL)
    since = [e for e in FALL if e.occurred_at >= alert.began_at and e.occurred_at <= alert.fired_at]  # type: ignore[operator]
    values = [e.scores["trace.adherence"] for e in since]
    assert alert.observed == pytest.approx(np.mean(values))
    assert alert.observed_n == len(values)
    assert alert.observed_lower < alert.observed < alert.observed_upper  # type: ignore[operator]
    assert alert.baseline == pytest.approx(0.7)
    assert alert.baseline_source == "target"
    assert abs(alert.began_at.timestamp() - START.timestamp() - 300) <= 10  # type: ignore[union-attr]
    worst = sorted(since, key=lambda e: e.scores["trace.adherence"])[:5]
    assert set(alert.worst_interaction_ids) == {e.interaction_id for e in worst}
    for words in ("trace.adherence of shop fell", f"{alert.observed:.3f}", "0.700", "10,000"):
        assert words in alert.message


def test_a_learned_baseline_is_on_the_lenient_side_of_the_mean() -> None:
    (alert,) = run((DRIFT,), FALL)
    learned = np.mean([e.scores["trace.adherence"] for e in FALL[:100]])
    assert learned - 0.15 < alert.baseline < learned  # type: ignore[operator]
    assert alert.baseline_source == "learned"
    assert alert.normal == pytest.approx(learned)
    assert alert.normal_n == 100
    assert alert.limit == pytest.approx(alert.baseline - DRIFT.min_effect)  # type: ignore[operator]


def test_a_target_and_a_given_baseline_are_what_they_are() -> None:
    (below,) = run((THRESHOLD,), FALL)
    assert (below.normal, below.normal_n) == (None, None)
    assert below.limit == pytest.approx(0.7 - THRESHOLD.min_effect)
    (fell,) = run((GIVEN,), FALL)
    assert (fell.normal, fell.normal_n) == (0.85, None)


def test_a_rule_knows_what_it_learned_after_a_restart() -> None:
    state = AggregatorState(StateOptions(rules=(DRIFT,)))
    for one in FALL[:150]:
        state.apply(one)
    again = AggregatorState.from_fields(StateOptions(rules=(DRIFT,)), state.take_changes().rows)
    for one in FALL[150:]:
        again.apply(one)
    assert list(again.take_changes().alerts) == run((DRIFT,), FALL)


def test_a_resolved_alert_says_what_was_seen_when_it_fired() -> None:
    fired, resolved = run((THRESHOLD,), FALL_AND_BACK)
    assert resolved.fired_observed == fired.observed
    assert resolved.began_at == fired.began_at
    assert fired.fired_observed is None


def test_nothing_changed_is_nothing_to_commit() -> None:
    state = AggregatorState(StateOptions())
    for one in FALL[:5]:
        state.apply(one)
    kinds = sorted(name.partition(":")[0] for name in state.take_changes().rows)
    assert kinds == ["clock", "estimate", "estimate", "quantiles", "quantiles"]
    assert state.take_changes().rows == {}


def test_an_alert_of_a_rule_that_was_removed_resolves_and_its_row_goes() -> None:
    state = AggregatorState(StateOptions(rules=(THRESHOLD,)))
    for one in FALL:
        state.apply(one)
    changes = state.take_changes()
    stricter = THRESHOLD.model_copy(update={"target": 0.75})
    after = AggregatorState.from_fields(StateOptions(rules=(stricter,)), changes.rows).take_changes()
    assert [alert.status for alert in after.alerts] == ["resolved"]
    assert after.alerts[0].alert_id == changes.alerts[0].alert_id
    assert list(after.gone) == [name for name in changes.rows if name.startswith("rule_state:")]


def test_an_event_with_a_score_out_of_range_changes_nothing() -> None:
    state = AggregatorState(StateOptions(rules=(THRESHOLD,)))
    with pytest.raises(InvalidEntryError, match=r"scores.trace.rmse_aggregation is 0.7, but its range is 0 to 0.5"):
        state.apply(event(0, {"trace.adherence": 0.5, "trace.rmse_aggregation": 0.7}))
    assert len(state) == 0
    assert state.take_changes().rows == {}


def test_rules_watch_the_pipelines_and_segments_they_name() -> None:
    segment_rule = AlertRule(
        name="by-language", kind="threshold", metric="trace.adherence", target=0.7, pipeline="shop-*", segment="lang"
    )
    german: dict[str, Any] = {"pipeline": "shop-a", "segments": {"lang": "de", "tier": "pro"}}
    other: dict[str, Any] = {"pipeline": "desk", "segments": {"lang": "de"}}
    events = [*adherence(beta(0.4, 100, 7), **german), *adherence(beta(0.4, 100, 8), first=100, **other)]
    (alert,) = run((segment_rule,), events)
    assert (alert.pipeline, alert.segment) == ("shop-a", "lang=de")


def means(state: AggregatorState, **how: Any) -> list[Estimate]:
    """Return the estimates that are plain means: not of what labeling took, nor from a sample."""
    return [e for e in estimates(state, **how) if e.estimator == "mean" and not e.metric.startswith("labeling.")]


def found(events: list[MetricEvent], **how: Any) -> dict[tuple[str | None, str], Any]:
    state = AggregatorState(StateOptions())
    for one in events:
        state.apply(one)
    return {(e.segment, e.metric): e for e in means(state, **how)}


def test_every_scope_has_its_own_estimate() -> None:
    events = [
        event(0, {"trace.adherence": 1.0}, segments={"lang": "de"}),
        event(1, {"trace.adherence": 0.0}, segments={"lang": "en"}),
        event(2, {"trace.adherence": 0.5}, segments={"lang": "en"}),
    ]
    means = {scope: (e.n, e.estimate) for (scope, _), e in found(events).items()}
    assert means == {None: (3, 0.5), "lang=de": (1, 1.0), "lang=en": (2, 0.25)}


@pytest.mark.parametrize(
    "change", [{"profile": "capstone"}, {"labeler": "judge"}, {"labeler_version": "2"}, {"run": "r"}]
)
def test_different_instruments_are_never_mixed(change: dict[str, str]) -> None:
    state = AggregatorState(StateOptions())
    state.apply(event(0, {"trace.adherence": 1.0}))
    state.apply(event(1, {"trace.adherence": 0.0}, **change))
    assert sorted(e.estimate for e in means(state) if e.estimate is not None) == [0.0, 1.0]


def test_absent_metrics_are_counted_not_scored() -> None:
    reason = {"trace.completeness": "no_relevant_sentences"}
    events = [
        event(0, {"trace.completeness": 0.5}),
        event(1, {}, absent=reason),
        event(2, {}, absent={**reason, "trace.adherence": "incomplete_labels"}),
    ]
    by = found(events)
    complete = by[None, "trace.completeness"]
    assert (complete.n, complete.n_absent, complete.coverage) == (1, 2, pytest.approx(1 / 3))
    unknown = by[None, "trace.adherence"]
    assert (unknown.n, unknown.estimate, unknown.lower, unknown.upper) == (0, None, 0.0, 1.0)


def test_the_rmse_against_gold_is_the_root_of_the_mean_squared_error() -> None:
    rng = np.random.default_rng(9)
    scores, gold = rng.random((2, 40, 2))
    events = [
        event(
            i,
            {"trace.adherence": scores[i, 0], "trace.rmse_aggregation": scores[i, 1] / 2},
            gold_scores={"trace.adherence": gold[i, 0], "trace.rmse_aggregation": gold[i, 1] / 2, "other.metric": 0.5},
        )
        for i in range(40)
    ]
    by = found(events)
    mse = ((scores - gold) ** 2).mean(axis=0)
    assert by[None, "rmse.trace.adherence"].estimate == pytest.approx(sqrt(mse[0]), abs=1e-12)
    # In the metric's own unit: its range is 0 to 0.5.
    assert by[None, "rmse.trace.rmse_aggregation"].estimate == pytest.approx(sqrt(mse[1]) / 2, abs=1e-12)
    assert by[None, "rmse.trace.adherence"].baseline == pytest.approx(gold[:, 0].std(), abs=1e-12)
    assert by[None, "rmse.trace"].estimate == pytest.approx(sqrt(mse.mean()), abs=1e-12)
    assert by[None, "consistency_score.trace"].estimate == pytest.approx(1 - sqrt(mse.mean()), abs=1e-12)
    assert not any(metric.startswith(("squared_error", "gold", "rmse.other")) for _, metric in by)
    for estimate in by.values():
        assert estimate.lower <= estimate.estimate <= estimate.upper


def test_the_mean_consistency_rmse_keeps_its_own_range() -> None:
    by = found([event(0, {"trace.rmse_aggregation": 0.2})])
    only = by[None, "trace.rmse_aggregation"]
    assert (only.estimate, only.lower, only.upper) == (pytest.approx(0.2), 0.0, 0.5)


@pytest.mark.parametrize("strategy", ["normal", "wilson", "hoeffding"])
def test_the_interval_of_a_run_closes_when_all_of_it_was_scored(strategy: str) -> None:
    events = adherence(beta(0.7, 60, 10), run="nightly", population_size=60)
    whole = found(events, strategy=strategy)[None, "trace.adherence"]
    half = found(events[:30], strategy=strategy)[None, "trace.adherence"]
    assert (whole.lower, whole.upper) == pytest.approx((whole.estimate, whole.estimate))
    assert half.lower < half.estimate < half.upper
    assert not half.anytime_valid
    assert half.population_size == 60


def test_an_unknown_strategy_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="running, normal, wilson, hoeffding"):
        estimates(AggregatorState(StateOptions()), strategy="bayes")


def judged(score: float, *, uniform: bool) -> JudgedScores:
    return JudgedScores(
        labeler="judge",
        labeler_version="m/trace.1",
        profile="ragbench",
        scores={"trace.adherence": score},
        absent={"trace.completeness": "no_relevant_sentences"},
        inclusion_probability=0.1,
        uniform=uniform,
    )


def test_a_judges_scores_have_estimates_of_their_own_from_the_uniform_part_of_the_sample_only() -> None:
    state = AggregatorState(StateOptions())
    for number in range(40):
        one = event(number, {"trace.adherence": 0.5}, gold_scores={"trace.adherence": 1.0})
        if number % 4 == 0:
            one = one.model_copy(update={"judged": judged(0.75, uniform=number % 8 == 0)})
        state.apply(one)
    found = {(e.labeler, e.metric): e for e in means(state)}
    assert found["test", "trace.adherence"].n == 40
    assert found["judge", "trace.adherence"].n == 5
    assert found["judge", "trace.adherence"].estimate == pytest.approx(0.75)
    assert found["judge", "trace.adherence"].labeler_version == "m/trace.1"
    assert found["judge", "trace.completeness"].n_absent == 5
    assert found["judge", "rmse.trace.adherence"].estimate == pytest.approx(0.25)
    assert found["test", "rmse.trace.adherence"].estimate == pytest.approx(0.5)


def test_a_metric_asked_of_a_part_of_the_sample_has_its_own_probability_in_its_pairs() -> None:
    asked = judged(0.75, uniform=True).model_copy(
        update={"scores": {"trace.adherence": 0.75, "mine.tone": 0.5}, "inclusion": {"mine.tone": 0.02}}
    )
    one = event(1, {"trace.adherence": 0.5, "mine.tone": 0.25}).model_copy(update={"judged": asked})
    by_labeler, *by_judge = parts_of(one)
    assert {pair.metric: pair.probability for pair in by_labeler.extracted.pairs} == {
        "trace.adherence": 0.1,
        "mine.tone": 0.02,
    }
    # This event does not state the rate of the uniform part, so the judge has the rate of the metric alone.
    found = {metric: part.event.kept_probability for part in by_judge for metric in part.event.scores}
    assert found == {"trace.adherence": 1.0, "mine.tone": pytest.approx(0.2)}


def test_an_event_whose_judged_scores_are_out_of_range_adds_nothing() -> None:
    state = AggregatorState(StateOptions())
    bad = event(1, {"trace.adherence": 0.5}).model_copy(update={"judged": judged(1.5, uniform=True)})
    with pytest.raises(InvalidEntryError, match=r"trace\.adherence is 1\.5"):
        state.apply(bad)
    assert len(state) == 0


def test_an_alert_carries_the_diagnosis_of_the_recent_scores_of_its_scope() -> None:
    def both(number: int, adherence_score: float, relevance: float) -> MetricEvent:
        return event(number, {"trace.adherence": adherence_score, "trace.context_relevance": relevance})

    events = [both(n, value, 0.6) for n, value in enumerate(beta(0.85, 200, 1))]
    events += [both(200 + n, value, 0.6) for n, value in enumerate(beta(0.3, 100, 2))]
    (alert,) = run((THRESHOLD,), events)
    assert len(alert.diagnosis) == 1
    assert alert.diagnosis[0].startswith("The documents are relevant, and the answers go beyond them")
    assert "adherence 0." in alert.diagnosis[0]


def test_an_alert_gives_no_advice_from_fewer_than_30_interactions() -> None:
    scores = {"trace.adherence": 0.05, "trace.context_relevance": 0.6}
    (alert,) = run((THRESHOLD,), [event(number, scores) for number in range(29)])
    assert alert.diagnosis == ()


def test_what_adds_up_is_projected_onto_a_run_of_known_size() -> None:
    metric = "sentences.unsupported"
    counts = [3.0, 5.0, 4.0, 4.0] * 5
    run: dict[str, Any] = {"run": "nightly", "population_size": 100}
    events = [event(number, {metric: count, "trace.adherence": 1.0}, **run) for number, count in enumerate(counts)]
    by = found(events, strategy="hoeffding")
    total = by[None, metric]
    assert total.total == pytest.approx(400)
    assert total.total_lower < 400 < total.total_upper
    assert total.total_lower == pytest.approx(100 * total.lower)
    assert by[None, "trace.adherence"].total is None
    assert found([event(0, {metric: 3.0})])[None, metric].total is None
