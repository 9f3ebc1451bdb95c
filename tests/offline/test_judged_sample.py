"""How many judged items a width takes: the planned number gives that width in the tables of the live estimates."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.metric_events import event

from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable
from ragtide_offline.capacity.judged_sample import JudgedScale, sample_plan, scale_of, scale_of_mean
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import Estimate, JudgedScores

pytestmark = pytest.mark.pure

CONFIDENCE = 0.95
ADHERENCE = "trace.adherence"


def drawn(rng: np.random.Generator, items: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a proxy's scores and answers of yes and no to 20% that follow them."""
    hint = rng.standard_normal(items)
    answers = 0.8 * hint + 0.6 * rng.standard_normal(items) > np.quantile(rng.standard_normal(200_000), 0.8)
    return 1 / (1 + np.exp(-hint)), answers.astype(float)


def read(judged: int, interactions: int, runs: int, *, proxy: bool) -> tuple[float, Estimate]:
    """Return the mean half width of streams with so many judged items, and the estimate of the first."""
    rng, halves = np.random.default_rng(3), []
    first: Estimate | None = None
    for _ in range(runs):
        cheap, answers = drawn(rng, interactions)
        moments, pairs, rows = MomentTable(), PairTable(), np.array([0])
        moments.add_row()
        pairs.add_row()
        moments.update(np.zeros(interactions, np.intp), cheap)
        chance = np.full(judged, judged / interactions)
        pairs.update(np.zeros(judged, np.intp), answers[:judged], cheap[:judged], chance)
        everything = Everything.scored(moments.read(rows)) if proxy else None
        seen = pairs.read(rows, everything, confidence=CONFIDENCE)
        halves.append(float((seen.upper - seen.lower)[0]) / 2)
        first = first or Estimate(
            pipeline="p", metric="criteria.x", lowest=0.0, highest=1.0, profile="ragbench", labeler="judge",
            labeler_version="1", estimator="prediction_powered", n=judged, estimate=float(seen.estimate[0]),
            lower=float(seen.lower[0]), upper=float(seen.upper[0]), n_effective=float(seen.n_effective[0]),
            strategy="asymptotic", anytime_valid=True, confidence=CONFIDENCE,
        )  # fmt: skip
    assert first is not None
    return float(np.mean(halves)), first


@pytest.mark.parametrize("proxy", [True, False])
def test_the_planned_number_of_judged_items_gives_the_wanted_width(proxy: bool) -> None:
    cheap, answers = drawn(np.random.default_rng(4), 200_000)
    correlation = float(np.corrcoef(cheap, answers)[0, 1])
    scale = JudgedScale(0.2, 0.0, 1.0, 0.4, correlation)
    planned = scale.judged_for(0.04, 10_000, confidence=CONFIDENCE, proxy=proxy)
    assert planned is not None
    half, _ = read(planned, 10_000, 12, proxy=proxy)
    assert half == pytest.approx(0.04, rel=0.05)


def test_the_state_of_a_deployment_gives_what_it_was_made_of() -> None:
    cheap, answers = drawn(np.random.default_rng(4), 200_000)
    _, estimate = read(2_000, 10_000, 1, proxy=True)
    found = scale_of(estimate, 10_000)
    assert found is not None
    assert found.deviation == pytest.approx(0.4, abs=0.02)
    assert found.correlation == pytest.approx(float(np.corrcoef(cheap, answers)[0, 1]), abs=0.05)
    assert scale_of(estimate.model_copy(update={"lower": 0.0, "upper": 1.0}), 10_000) is None


def test_a_proxy_saves_judged_items_and_a_width_that_all_cannot_give_is_not_planned() -> None:
    scale = JudgedScale(3.0, 1.0, 5.0, 1.0, 0.7)
    plan = sample_plan("m", scale, 0.1, days=7, interactions_a_day=1_000, confidence=CONFIDENCE, usd_each=0.001)
    assert plan.with_proxy is not None
    assert plan.judged_alone is not None
    assert plan.with_proxy.judged < 0.7 * plan.judged_alone.judged
    assert plan.with_proxy.usd == pytest.approx(0.001 * plan.with_proxy.judged)
    assert plan.with_proxy.rate == pytest.approx(plan.with_proxy.judged / 7_000)
    assert scale.half_width(plan.with_proxy.judged, 7_000, confidence=CONFIDENCE) <= 0.1
    assert scale.half_width(plan.with_proxy.judged - 1, 7_000, confidence=CONFIDENCE) > 0.1
    few = sample_plan("m", scale, 0.001, days=1, interactions_a_day=1_000, confidence=CONFIDENCE, usd_each=None)
    assert (few.with_proxy, few.judged_alone) == (None, None)


def test_rare_answers_need_enough_of_them() -> None:
    scale = JudgedScale(0.05, 0.0, 1.0, 0.05**0.5, 0.9)
    assert scale.least_judged == pytest.approx(600)
    assert scale.judged_for(0.5, 10_000, confidence=CONFIDENCE) == 600
    assert scale.judged_for(0.5, 500, confidence=CONFIDENCE) is None


def in_sessions(rate: float, count: int, size: int = 8) -> tuple[Estimate, Estimate, int]:
    """Return the estimates with a proxy and without of sessions that go well or badly, and the interactions."""
    rng = np.random.default_rng(5)
    state = AggregatorState(StateOptions(clusters=ClusterSettings(size=20, quiet_s=30, open_cap=4)))
    for number in range(count):
        luck = 0.85 if rng.random() < 0.5 else 0.25
        for item in range(size):
            answer = float(rng.random() < luck)
            judged = JudgedScores(
                labeler="judge", labeler_version="1", profile="ragbench", scores={ADHERENCE: answer}, uniform=True,
                inclusion_probability=rate,
            )  # fmt: skip
            state.apply(
                event(
                    100 * number + item,
                    {ADHERENCE: 0.4 * answer + 0.6 * float(rng.random())},
                    session_id=f"s-{number}",
                    judged=judged if rng.random() < rate else None,
                )
            )
    of = {
        estimate.estimator: estimate
        for estimate in estimates(state, strategy="auto", confidence=CONFIDENCE)
        if estimate.segment is None and (estimate.estimator == "mean") != (estimate.labeler == "judge")
    }
    return of["prediction_powered"], of["weighted"], of["mean"].n


def half_of(estimate: Estimate) -> float:
    assert estimate.lower is not None
    assert estimate.upper is not None
    return (estimate.upper - estimate.lower) / 2


def test_the_plan_has_the_width_of_estimates_in_sessions_at_their_rate_and_at_another() -> None:
    powered, weighted, interactions = in_sessions(0.25, 600)
    scale = scale_of(powered, interactions, weighted)
    assert scale is not None
    assert powered.design_effect is not None
    assert powered.design_effect > 1.2
    for proxy, estimate in ((True, powered), (False, weighted)):
        planned = scale.half_width(estimate.n, interactions, confidence=CONFIDENCE, proxy=proxy)
        assert planned == pytest.approx(half_of(estimate), rel=0.02)
    assert scale.cluster_items == pytest.approx(8, rel=0.1)
    more, more_weighted, _ = in_sessions(0.8, 600)
    for proxy, estimate in ((True, more), (False, more_weighted)):
        planned = scale.half_width(estimate.n, interactions, confidence=CONFIDENCE, proxy=proxy)
        assert planned == pytest.approx(half_of(estimate), rel=0.08)
        single = replace(scale, dependence=0.0, dependence_alone=0.0, cluster_items=1.0)
        assert single.half_width(estimate.n, interactions, confidence=CONFIDENCE, proxy=proxy) < 0.8 * half_of(estimate)


def test_the_part_of_sessions_is_not_made_smaller_by_more_judged_items() -> None:
    scale = JudgedScale(0.5, 0.0, 1.0, 0.5, 0.0, dependence=3.0, dependence_alone=3.0, cluster_items=4.0)
    assert scale.judged_for(0.05, 3_000, confidence=CONFIDENCE, proxy=False) is None
    assert replace(scale, dependence_alone=0.0).judged_for(0.05, 3_000, confidence=CONFIDENCE, proxy=False) is not None
    assert scale.judged_for(0.05, 30_000, confidence=CONFIDENCE, proxy=False) is not None


def test_the_mean_of_a_judge_without_a_proxy_gives_deviation_and_design_effect() -> None:
    judged = Estimate(
        pipeline="p", metric="criteria.x", lowest=0.0, highest=1.0, profile="ragbench", labeler="judge",
        labeler_version="1", n=500, n_traffic=5_000, n_clusters=400, design_effect=1.5, estimate=0.3, lower=0.2,
        upper=0.4, standard_deviation=0.45, strategy="running", anytime_valid=True, confidence=CONFIDENCE,
    )  # fmt: skip
    scale = scale_of_mean(judged)
    assert scale is not None
    assert (scale.deviation, scale.correlation) == (0.45, 0.0)
    assert scale.design_effect(500, 5_000, proxy=False) == pytest.approx(1.5)
    assert scale.clusters(500, 5_000) == pytest.approx(400)
    assert scale_of_mean(judged.model_copy(update={"standard_deviation": None})) is None
