"""Judged samples and people's scores: weighted and prediction-powered estimates of all interactions."""

from typing import Any

import numpy as np
import pytest
from tests.support.metric_events import event

from ragtide import Estimate
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.estimates import STRATEGIES, estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_schemas import JudgedScores, MetricEvent

METRIC = "trace.context_relevance"


def sampled(n: int, *, rate: float, seed: int, by_score: bool = False) -> tuple[list[MetricEvent], Any, Any]:
    """Return events whose cheap score is near the judge's but too high, with the judge's scores and who was judged."""
    rng = np.random.default_rng(seed)
    true = rng.beta(4, 3, n)
    cheap = np.clip(true + 0.1 + 0.05 * rng.standard_normal(n), 0, 1)
    probability = np.clip(rate * (1.8 - 1.6 * cheap), 0.01, 1) if by_score else np.full(n, rate)
    judged = rng.random(n) < probability
    events = []
    for number in range(n):
        one = event(number, {METRIC: float(cheap[number])})
        if judged[number]:
            scores = JudgedScores(
                labeler="judge",
                labeler_version="m/1",
                profile="ragbench",
                scores={METRIC: float(true[number])},
                inclusion_probability=float(probability[number]),
                uniform=not by_score,
            )
            one = one.model_copy(update={"judged": scores})
        events.append(one)
    return events, true, judged


def by_estimator(events: list[MetricEvent], labeler: str = "judge") -> dict[str, Estimate]:
    state = AggregatorState(StateOptions())
    for one in events:
        state.apply(one)
    found = chosen(estimates(state), estimator="all")
    return {e.estimator: e for e in found if e.labeler == labeler and e.metric == METRIC}


def test_a_judge_on_a_sample_and_a_cheap_labeler_on_all_estimate_the_judges_mean() -> None:
    events, true, judged = sampled(4000, rate=0.1, seed=1)
    found = by_estimator(events)
    powered, weighted, mean = (found[name] for name in ("prediction_powered", "weighted", "mean"))
    assert weighted.estimate == pytest.approx(mean.estimate) == pytest.approx(true[judged].mean())
    assert abs(powered.estimate - true.mean()) < 0.01
    assert powered.n == mean.n == judged.sum()
    assert powered.lower < true.mean() < powered.upper
    assert powered.upper - powered.lower < 0.6 * (weighted.upper - weighted.lower)  # type: ignore[operator]
    assert powered.n_effective > 3 * powered.n  # type: ignore[operator]
    assert (powered.strategy, powered.anytime_valid) == ("asymptotic", True)


def test_a_sample_chosen_by_score_is_weighed_and_its_plain_mean_is_not_shown() -> None:
    events, true, judged = sampled(12_000, rate=0.1, seed=2, by_score=True)
    found = by_estimator(events)
    assert set(found) == {"weighted", "prediction_powered"}
    assert abs(true[judged].mean() - true.mean()) > 0.04
    assert abs(found["weighted"].estimate - true.mean()) < 0.03
    assert abs(found["prediction_powered"].estimate - true.mean()) < 0.012


def test_peoples_scores_are_joined_in_the_same_way_also_when_they_come_later() -> None:
    rng = np.random.default_rng(3)
    events = [event(number, {METRIC: float(score)}) for number, score in enumerate(rng.beta(4, 3, 1500))]
    graded = [n for n in range(1500) if rng.random() < 0.2]
    gold = {n: min(max(events[n].scores[METRIC] - 0.1, 0.0), 1.0) for n in graded}
    at_once = AggregatorState(StateOptions())
    later = AggregatorState(StateOptions())
    for number, one in enumerate(events):
        with_gold = one.model_copy(update={"gold_scores": {METRIC: gold[number]}}) if number in gold else one
        at_once.apply(with_gold)
        later.apply(one)
    for number in graded:
        later.apply_gold(events[number], {METRIC: gold[number]})
    found = [
        {e.estimator: e.estimate for e in chosen(estimates(state), estimator="all") if e.labeler == "gold"}
        for state in (at_once, later)
    ]
    assert found[0] == pytest.approx(found[1])
    mean = np.mean([e.scores[METRIC] for e in events])
    assert found[0]["prediction_powered"] == pytest.approx(mean - 0.1, abs=0.002)


def test_people_who_are_asked_for_a_sample_of_each_part_at_its_own_rate_estimate_the_whole() -> None:
    rng = np.random.default_rng(8)
    events, gold = [], []
    state = AggregatorState(StateOptions())
    for number in range(6000):
        true = float(rng.beta(4, 3))
        # The pipeline becomes better while fewer of its interactions are shown to people.
        true, probability = (true, 0.4) if number < 3000 else (true**0.3, 0.1)
        events.append(event(number, {METRIC: float(np.clip(true + 0.1 * rng.standard_normal(), 0, 1))}))
        gold.append(true)
        state.apply(events[-1])
        if rng.random() < probability:
            state.apply_gold(events[-1], {METRIC: true}, probability)
    found: dict[str, Any] = {e.estimator: e for e in chosen(estimates(state), estimator="all") if e.labeler == "gold"}
    for name, tolerance in (("weighted", 0.02), ("prediction_powered", 0.01)):
        assert found[name].estimate == pytest.approx(np.mean(gold), abs=tolerance)
        assert found[name].lower < np.mean(gold) < found[name].upper
    alike = AggregatorState(StateOptions())
    for one, true in zip(events, gold, strict=True):
        alike.apply(one)
        alike.apply_gold(one, {METRIC: true}, 0.25)
    (mean,) = {
        round(e.estimate or 0.0, 9) for e in chosen(estimates(alike), estimator="all") if e.estimator == "weighted"
    }
    assert mean == pytest.approx(np.mean(gold)), "one probability for all changes no mean"


def test_what_labeling_took_has_quantiles_and_no_interval() -> None:
    state = AggregatorState(StateOptions())
    for number in range(200):
        state.apply(event(number, {METRIC: number / 200}, latency_s=float(number), cost_usd=0.01, prompts=("p",)))
    found = {e.metric: e for e in chosen(estimates(state), labeling=True)}
    latency, cost = found["labeling.latency_s"], found["labeling.cost_usd"]
    assert latency.estimate == pytest.approx(99.5)
    assert (latency.lower, latency.upper, latency.strategy) == (None, None, "none")
    assert latency.quantiles is not None
    assert latency.quantiles["p95"] == pytest.approx(189, rel=0.03)
    assert cost.estimate == pytest.approx(0.01)
    assert cost.quantiles == dict.fromkeys(("p5", "p50", "p95", "p99"), 0.01), "no quantile is outside the values"
    (score,) = [e for e in chosen(estimates(state)) if e.metric == METRIC]
    assert score.quantiles is not None
    assert score.quantiles["p50"] == pytest.approx(0.5, rel=0.03)
    # Without a judge there is no cost to speak of.
    plain = AggregatorState(StateOptions())
    plain.apply(event(0, {METRIC: 0.5}))
    assert [e.metric for e in chosen(estimates(plain), labeling=True)] == ["labeling.latency_s"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_slow_labeling_disturbs_no_interval(strategy: str) -> None:
    state = AggregatorState(StateOptions())
    for number in range(60):
        state.apply(event(number, {METRIC: number % 2 * 1.0}, latency_s=40.0 + number))
    (score,) = [e for e in chosen(estimates(state, strategy=strategy)) if e.metric == METRIC]
    assert score.lower <= 0.5 <= score.upper  # type: ignore[operator]


def test_the_balance_of_the_four_scores_shows_its_distribution() -> None:
    state = AggregatorState(StateOptions())
    values = [0.05, 0.10, 0.12, 0.15, 0.18, 0.25, 0.30, 0.31, 0.40, 0.5]
    for number, value in enumerate(values * 20):
        state.apply(event(number, {"trace.rmse_aggregation": value}))
    (one,) = chosen(estimates(state))
    assert {share.upto: share.share for share in one.distribution} == pytest.approx(
        {0.10: 0.2, 0.15: 0.4, 0.20: 0.5, 0.30: 0.7}
    )
    for share in one.distribution:
        assert share.lower < share.share < share.upper


def test_in_a_cascade_the_dollars_are_booked_under_the_labeler_that_was_paid() -> None:
    state = AggregatorState(StateOptions())
    for number in range(10):
        judged = JudgedScores(labeler="judge", labeler_version="m", profile="p", scores={METRIC: 0.5}, cost_usd=0.02)
        state.apply(event(number, {METRIC: 0.5}, latency_s=1.0, cost_usd=0.02, judged=judged if number < 4 else None))
    found = {(e.labeler, e.metric): e for e in chosen(estimates(state), labeling=True)}
    assert found["judge", "labeling.cost_usd"].estimate == pytest.approx(0.02)
    assert found["judge", "labeling.cost_usd"].n == 4
    assert {metric for labeler, metric in found if labeler != "judge"} == {"labeling.latency_s"}


def test_a_proxy_that_is_paid_has_dollars_of_its_own_beside_the_reference() -> None:
    state = AggregatorState(StateOptions())
    judged = JudgedScores(labeler="judge", labeler_version="m", profile="p", scores={METRIC: 0.5}, cost_usd=0.02)
    state.apply(event(1, {METRIC: 0.5}, cost_usd=0.03, judged=judged))
    found = {e.labeler: e.estimate for e in chosen(estimates(state), labeling=True) if e.metric == "labeling.cost_usd"}
    assert found.pop("judge") == pytest.approx(0.02)
    assert list(found.values()) == [pytest.approx(0.01)]
