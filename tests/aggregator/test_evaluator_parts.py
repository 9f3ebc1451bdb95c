"""The parts of an event with several evaluators: each counts for its own labeler, with its own probability."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.metric_events import beta, event

from ragtide import Estimate
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.feedback_joiner import judge_feedback
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import EvaluatorScores, Feedback, JudgedScores, MetricEvent

pytestmark = pytest.mark.simulation

ADHERENCE = "trace.adherence"
RELEVANCE = "trace.context_relevance"
PLAIN = StateOptions()
CLUSTERED = StateOptions(clusters=ClusterSettings(size=3, quiet_s=30))
PROBABILITIES = st.sampled_from([1.0, 0.5, 0.1])


def part(labeler: str, scores: dict[str, float], **fields: Any) -> EvaluatorScores:
    return EvaluatorScores(labeler=labeler, labeler_version="1", profile="ragbench", scores=scores, **fields)


def judged(score: float, probability: float, *, uniform: bool = True) -> JudgedScores:
    return JudgedScores(
        labeler="gpt", labeler_version="1", profile="ragbench", scores={ADHERENCE: score},
        inclusion_probability=probability, uniform=uniform,
    )  # fmt: skip


def applied(events: Sequence[MetricEvent], options: StateOptions = PLAIN) -> AggregatorState:
    state = AggregatorState(options)
    for one in events:
        state.apply(one)
    return state


def of(state: AggregatorState, metric: str = ADHERENCE, **wanted: Any) -> Estimate:
    wanted = {"window": "all", "segment": None, "estimator": "mean", "labeler": "test"} | wanted
    (found,) = [
        estimate
        for estimate in estimates(state)
        if estimate.metric == metric and all(getattr(estimate, name) == value for name, value in wanted.items())
    ]
    return found


@st.composite
def scored(draw: st.DrawFn) -> list[MetricEvent]:
    """Return events of up to three evaluators, the last one a cascade, with gold scores, segments and sessions."""
    found = []
    for number in range(draw(st.integers(1, 25))):
        score = st.floats(0, 1)
        beside = []
        if draw(st.booleans()):
            scores = draw(st.dictionaries(st.sampled_from([ADHERENCE, RELEVANCE]), score, max_size=2))
            absent = {} if ADHERENCE in scores else {ADHERENCE: "judge_unusable"}
            beside.append(part("other", scores, absent=absent, inclusion_probability=draw(PROBABILITIES)))
        if draw(st.booleans()):
            reference = judged(draw(score), 0.5, uniform=draw(st.booleans()))
            chosen = draw(PROBABILITIES)
            beside.append(part("proxy", {ADHERENCE: draw(score)}, judged=reference, inclusion_probability=chosen))
        found.append(
            event(
                number,
                {ADHERENCE: draw(score)},
                beside=beside or None,
                segments=draw(st.sampled_from([{}, {"lang": "de"}, {"lang": "en"}])),
                session_id=draw(st.sampled_from([None, "s1", "s2"])),
                gold_scores=draw(st.sampled_from([{}, {ADHERENCE: 1.0}, {ADHERENCE: 0.0, "feedback.positive": 1.0}])),
                sampling_probability=draw(PROBABILITIES),
            )
        )
    return found


@settings(max_examples=20, deadline=None)
@given(scored())
def test_the_parts_of_an_event_count_as_events_of_their_labelers_would(events: list[MetricEvent]) -> None:
    """Without clusters each key sees the same values in the same order, alone or beside others."""
    together = estimates(applied(events))
    for labeler in {found.labeler for found in together} - {"gpt", "gold"}:
        alone = [one for whole in events for one in whole.by_evaluator() if one.labeler == labeler]
        apart = estimates(applied(alone))
        ours = [found for found in together if found.labeler == labeler and found.metric != "labeling.latency_s"]
        theirs = [found for found in apart if found.labeler == labeler and found.metric != "labeling.latency_s"]
        assert ours == theirs


@settings(max_examples=15, deadline=None)
@given(scored(), st.sampled_from([PLAIN, CLUSTERED]))
def test_an_event_counts_the_same_in_one_batch_and_alone(events: list[MetricEvent], options: StateOptions) -> None:
    whole = applied(events, options)
    cut = AggregatorState(options)
    for one in events:
        cut.apply(one)
        len(cut.keys)  # applies what waits
    assert estimates(whole) == estimates(cut)
    assert estimates(AggregatorState.from_fields(options, whole.take_changes().rows)) == estimates(whole)


def test_evaluators_of_one_interaction_are_one_interaction_of_its_session() -> None:
    events = [
        event(number, {ADHERENCE: 0.5}, session_id="s", beside=[part("other", {ADHERENCE: 0.4})]) for number in range(6)
    ]
    by = {labeler: of(applied(events, CLUSTERED), labeler=labeler) for labeler in ("test", "other")}
    assert by["test"].n_clusters == by["other"].n_clusters == 2


def test_the_seconds_of_labeling_count_once_for_an_interaction_and_the_dollars_for_each_labeler() -> None:
    state = applied(
        [event(0, {ADHERENCE: 1.0}, latency_s=2.0, cost_usd=0.5, beside=[
            part("other", {ADHERENCE: 0.0}, cost_usd=0.3, prompts=("p",)),
        ], prompts=("q",))]
    )  # fmt: skip
    assert [found.labeler for found in estimates(state) if found.metric == "labeling.latency_s"] == ["test"]
    assert of(state, "labeling.cost_usd").estimate == pytest.approx(0.2)
    assert of(state, "labeling.cost_usd", labeler="other").estimate == pytest.approx(0.3)


def test_a_gold_score_is_compared_with_every_evaluator_once() -> None:
    whole = event(0, {ADHERENCE: 1.0}, beside=[part("other", {ADHERENCE: 0.5, RELEVANCE: 0.2})])
    state = applied([whole])
    given_scores = {ADHERENCE: 0.0, RELEVANCE: 0.2, "feedback.positive": 1.0}
    verdict = judge_feedback(Feedback(pipeline="shop", interaction_id="i-0", gold_scores=given_scores), whole, ())
    assert verdict.accepted == given_scores
    assert verdict.uncompared == 0
    state.apply_gold(whole, verdict.accepted)
    assert of(state, f"rmse.{ADHERENCE}").estimate == 1.0
    assert of(state, f"rmse.{ADHERENCE}", labeler="other").estimate == 0.5
    assert of(state, "feedback.positive", labeler="gold").n == 1


def test_means_and_totals_are_unbiased_whatever_the_rates_of_the_evaluators() -> None:
    """4,000 streams of 200 interactions. German answers are worse and are drawn at 50%, the others at 10%.

    The mean and the total of each stream over all of its interactions are the targets; the producer samples some
    interactions at 50%. The standard error of 4,000 streams bounds the mean deviation; a ratio has a bias of 1 / n.
    """
    chance = np.random.default_rng(42)
    runs, n = 4_000, 200
    scores = [part("gpt", {}, inclusion_probability=rate) for rate in (0.1, 0.5)]
    weight_of = {
        (german, kept): 1
        / event(0, {}, sampling_probability=kept, beside=[scores[german]]).by_evaluator()[1].kept_probability
        for german in (0, 1)
        for kept in (0.5, 1.0)
    }
    german = chance.random((runs, n)) < 0.3
    kept = np.where(chance.random((runs, n)) < 0.5, 0.5, 1.0)
    values = np.where(german, 0.4, 0.9) * chance.random((runs, n)) ** 0.3
    drawn = (chance.random((runs, n)) < np.where(german, 0.5, 0.1)) & (chance.random((runs, n)) < kept)
    weights = np.select(
        [german & (kept < 1), german, kept < 1],
        [weight_of[key] for key in ((1, 0.5), (1, 1.0), (0, 0.5))],
        weight_of[0, 1.0],
    )
    weights = np.where(drawn, weights, 0.0)
    totals = (weights * values).sum(axis=1) / values.sum(axis=1) - 1
    shares = weights.sum(axis=1) / n - 1
    means = (weights * values).sum(axis=1) / np.maximum(weights.sum(axis=1), 1) - values.mean(axis=1)
    for deviations in (totals, shares, means):
        assert abs(deviations.mean()) < 4 * deviations.std() / np.sqrt(runs) + 1 / n
    plain = (drawn * values).sum(axis=1) / drawn.sum(axis=1) - values.mean(axis=1)
    assert plain.mean() < -0.1


def test_the_mean_of_an_evaluator_with_two_rates_is_the_weighted_one() -> None:
    values, rates = beta(0.8, 200, 3), np.tile([0.5, 0.1], 100)
    events = [
        event(number, {}, beside=[part("gpt", {ADHERENCE: float(value)}, inclusion_probability=float(rate))])
        for number, (value, rate) in enumerate(zip(values, rates, strict=True))
    ]
    found = of(applied(events), labeler="gpt")
    assert found.estimate == pytest.approx(np.average(values, weights=1 / rates))
    assert found.n_traffic == pytest.approx(np.sum(1 / rates))


def test_the_probabilities_of_evaluator_and_cascade_multiply_in_the_weighted_mean() -> None:
    """Only the product of both probabilities makes the mean of the reference's scores unbiased."""
    chance = np.random.default_rng(5)
    means = []
    for run in range(60):
        values = chance.beta(8, 2, 400)
        truth = np.clip(values - 0.2, 0, 1)
        rates = np.where(values < 0.8, 0.8, 0.4)
        events = []
        for number in np.flatnonzero(chance.random(400) < rates):
            probability = 0.9 if values[number] < 0.7 else 0.3
            reference = judged(float(truth[number]), probability) if chance.random() < probability else None
            evaluator = part(
                "proxy", {ADHERENCE: float(values[number])}, judged=reference,
                inclusion_probability=float(rates[number]),
            )  # fmt: skip
            events.append(event(int(number) + 1000 * run, {}, beside=[evaluator]))
        found = of(applied(events), labeler="gpt", estimator="weighted")
        means.append(found.estimate - truth.mean())
    assert abs(np.mean(means)) < 4 * np.std(means) / np.sqrt(60)
    assert np.std(means) < 0.03
