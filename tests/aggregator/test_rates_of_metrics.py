"""Metrics that are asked of a part of the answers: their weights, whatever the rates are and however they change."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.metric_events import event

from ragtide import Estimate
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import EvaluatorScores, JudgedScores, MetricEvent

pytestmark = pytest.mark.simulation

POLITE, CLEAR, ADHERENCE = "criteria.polite", "criteria.clear", "trace.adherence"
PLAIN = StateOptions()
CLUSTERED = StateOptions(clusters=ClusterSettings(size=3, quiet_s=30))
RATES = st.sampled_from([1.0, 0.5, 0.2])


def applied(events: Sequence[MetricEvent], options: StateOptions = PLAIN) -> AggregatorState:
    state = AggregatorState(options)
    for scored in events:
        state.apply(scored)
    return state


def of(state: AggregatorState, metric: str, **wanted: Any) -> Estimate:
    wanted = {"window": "all", "segment": None, "estimator": "mean"} | wanted
    (found,) = [
        estimate
        for estimate in estimates(state)
        if estimate.metric == metric and all(getattr(estimate, name) == value for name, value in wanted.items())
    ]
    return found


def judged(score: float, **fields: Any) -> JudgedScores:
    fields = {"labeler": "gpt", "labeler_version": "1", "profile": "ragbench", "scores": {POLITE: score}} | fields
    return JudgedScores(**fields)


def falling(sampled: Any) -> tuple[list[MetricEvent], float]:
    """Return events of 6,000 answers that get worse, of which a rate that falls at the same time chooses some.

    `sampled` makes an event of its number, its score and the rate. The second element is the mean of all answers.
    """
    chance = np.random.default_rng(11)
    n = 6_000
    truth = (chance.random(n) < np.where(np.arange(n) < n // 2, 0.9, 0.3)).astype(float)
    rates = np.where(np.arange(n) < n // 2, 0.1, 0.8)
    kept = np.flatnonzero(chance.random(n) < rates)
    return [sampled(number, float(truth[number]), float(rates[number])) for number in kept.tolist()], truth.mean()


def by_own_labeler(number: int, score: float, rate: float) -> MetricEvent:
    return event(number, {POLITE: score, ADHERENCE: 0.5}, inclusion={POLITE: rate})


def by_evaluator(number: int, score: float, rate: float) -> MetricEvent:
    beside = EvaluatorScores(
        labeler="gpt", labeler_version="1", profile="ragbench", scores={POLITE: score},
        inclusion_probability=0.9, inclusion={POLITE: 0.9 * rate},
    )  # fmt: skip
    return event(number, {ADHERENCE: 0.5}, beside=[beside])


def by_judge(number: int, score: float, rate: float) -> MetricEvent:
    uniform = judged(
        score, uniform=True, uniform_probability=0.5, inclusion_probability=0.5, inclusion={POLITE: 0.5 * rate}
    )
    return event(number, {ADHERENCE: 0.5}, judged=uniform)


def by_cascade(number: int, score: float, rate: float) -> MetricEvent:
    uniform = judged(score, uniform=True, uniform_probability=rate, inclusion_probability=min(1.0, 2 * rate))
    return event(number, {ADHERENCE: 0.5}, judged=uniform)


@pytest.mark.parametrize("sampled", [by_own_labeler, by_evaluator, by_judge, by_cascade])
@pytest.mark.parametrize("options", [PLAIN, CLUSTERED])
def test_a_rate_that_changes_while_answers_get_worse_biases_no_mean(sampled: Any, options: StateOptions) -> None:
    events, truth = falling(sampled)
    found = of(applied(events, options), POLITE)
    values = [
        score
        for scored in events
        for part in scored.parts()
        for score in [part.scores.get(POLITE)]
        if score is not None
    ]
    assert abs(np.mean(values) - truth) > 0.15, "the plain mean is far from the truth"
    assert found.estimate == pytest.approx(truth, abs=0.04)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < truth < found.upper
    other = of(applied(events, options), ADHERENCE)
    assert (other.n, other.estimate, other.n_traffic) == (len(events), 0.5, None)


def test_one_rate_leaves_the_plain_mean_and_states_the_traffic() -> None:
    scores = np.random.default_rng(3).random(400)
    state = applied([by_own_labeler(number, float(score), 0.2) for number, score in enumerate(scores)])
    alone = applied([event(number, {POLITE: float(score)}) for number, score in enumerate(scores)])
    found, plain = of(state, POLITE), of(alone, POLITE)
    assert (found.estimate, found.lower, found.upper) == (plain.estimate, plain.lower, plain.upper)
    assert found.n_traffic == pytest.approx(5 * 400)
    # The judge's rate is the quotient of two products, which rounds in other ways with other rates of the cascade.
    mixed = [
        judged(
            float(score), uniform=True, uniform_probability=0.05, inclusion_probability=chosen,
            inclusion={POLITE: chosen * 0.3},
        )
        for score, chosen in zip(scores, [0.05, 0.07, 0.61, 1.0] * 100, strict=True)
    ]  # fmt: skip
    found = of(applied([event(number, {}, judged=part) for number, part in enumerate(mixed)]), POLITE)
    assert (found.estimate, found.lower, found.upper) == (plain.estimate, plain.lower, plain.upper)
    assert found.n_traffic == pytest.approx(400 / (0.05 * 0.3))


def test_a_judge_of_judges_is_drawn_once_for_a_metric() -> None:
    """Both labelers of a cascade draw a criterion by one hash, so only the smaller rate counts for their pairs."""
    reference = judged(1.0, inclusion_probability=0.5, inclusion={POLITE: 0.5 * 0.2})
    (_, part) = event(0, {POLITE: 0.0, ADHERENCE: 1.0}, judged=reference, inclusion={POLITE: 0.4}).by_probability()
    assert part.judged is not None
    assert part.kept_probability * part.judged.probability_of(POLITE) == pytest.approx(0.5 * 0.2)


@st.composite
def scored(draw: st.DrawFn) -> list[MetricEvent]:
    found = []
    for number in range(draw(st.integers(1, 20))):
        score = st.floats(0, 1)
        scores = draw(st.dictionaries(st.sampled_from([POLITE, CLEAR, ADHERENCE]), score, max_size=3))
        absent = {} if CLEAR in scores else draw(st.sampled_from([{}, {CLEAR: "cannot_tell"}]))
        rates = st.dictionaries(st.sampled_from([POLITE, CLEAR]), RATES, max_size=2)
        share = draw(RATES)
        reference = judged(
            draw(score), inclusion_probability=share, uniform=draw(st.booleans()),
            uniform_probability=draw(st.sampled_from([None, 0.2])),
            inclusion=draw(st.sampled_from([None, {POLITE: share * 0.2}])),
        )  # fmt: skip
        found.append(
            event(
                number,
                scores,
                absent=absent,
                inclusion=draw(rates) or None,
                judged=draw(st.sampled_from([None, reference])),
                segments=draw(st.sampled_from([{}, {"lang": "de"}])),
                session_id=draw(st.sampled_from([None, "s1"])),
                gold_scores=draw(st.sampled_from([{}, {POLITE: 1.0, ADHERENCE: 0.0, "feedback.positive": 1.0}])),
                sampling_probability=draw(RATES),
            )
        )
    return found


@settings(max_examples=40, deadline=None)
@given(scored())
def test_the_parts_of_an_event_have_each_score_once_with_its_probability(events: list[MetricEvent]) -> None:
    for whole in events:
        parts = whole.by_probability()
        assert sorted(item for part in parts for item in part.scores.items()) == sorted(whole.scores.items())
        assert sorted(item for part in parts for item in part.absent.items()) == sorted(whole.absent.items())
        for part in parts:
            for metric in (*part.scores, *part.absent):
                wanted = whole.sampling_probability * whole.probability_of(metric)
                assert part.kept_probability == pytest.approx(wanted)


@settings(max_examples=20, deadline=None)
@given(scored(), st.sampled_from([PLAIN, CLUSTERED]))
def test_an_event_counts_the_same_in_one_batch_and_alone(events: list[MetricEvent], options: StateOptions) -> None:
    later = {POLITE: 0.0, CLEAR: 1.0, ADHERENCE: 1.0}
    whole, cut = AggregatorState(options), AggregatorState(options)
    for state in (whole, cut):
        for given_event in events:
            state.apply(given_event)
            if state is cut:
                len(cut.keys)  # applies what waits
        for given_event in events:
            if not given_event.gold_scores:
                state.apply_gold(given_event, {metric: later[metric] for metric in given_event.scores})
            if state is cut:
                len(cut.keys)
    assert estimates(whole) == estimates(cut)
    assert estimates(AggregatorState.from_fields(options, whole.take_changes().rows)) == estimates(whole)


@settings(max_examples=30, deadline=None)
@given(scored())
def test_each_interaction_counts_once_for_a_metric(events: list[MetricEvent]) -> None:
    state = applied(events)
    for metric in (POLITE, CLEAR, ADHERENCE):
        values = [given_event.scores[metric] for given_event in events if metric in given_event.scores]
        if values:
            found = of(state, metric, labeler="test")
            weights = [1 / (e.sampling_probability * e.probability_of(metric)) for e in events if metric in e.scores]
            assert found.n == len(values)
            assert found.estimate == pytest.approx(np.average(values, weights=weights))
    usage = of(state, "labeling.latency_s")
    assert usage.n == len(events)
