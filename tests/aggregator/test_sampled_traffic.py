"""Interactions that were kept from the traffic with a probability below 1: their weights in estimates."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.metric_events import adherence, beta, event

from ragtide import AlertRule, Estimate
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.events.values import gold_parts
from ragtide_aggregator.maintenance.repair import dropped_field
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import JudgedScores, MetricEvent

pytestmark = pytest.mark.simulation

ADHERENCE = "trace.adherence"
PANES = Panes((window("1h"), window("3h/1h")), 3_600_000)
OPTIONS = StateOptions(panes=PANES)
CLUSTERS = ClusterSettings(size=4, quiet_s=30)


def applied(events: Sequence[MetricEvent], options: StateOptions = OPTIONS) -> AggregatorState:
    state = AggregatorState(options)
    for one in events:
        state.apply(one)
    return state


def of(state: AggregatorState, metric: str = ADHERENCE, **wanted: Any) -> Estimate:
    wanted = {"window": "all", "segment": None, "estimator": "mean", "labeler": "test"} | wanted
    strategy = wanted.pop("asked", "auto")
    (found,) = [
        estimate
        for estimate in estimates(state, strategy=strategy, confidence=0.95)
        if estimate.metric == metric and all(getattr(estimate, name) == value for name, value in wanted.items())
    ]
    return found


def ends(found: Estimate) -> tuple[float, float]:
    assert found.lower is not None
    assert found.upper is not None
    return found.lower, found.upper


def kept(values: Any, probabilities: Any, **changes: Any) -> list[MetricEvent]:
    """Return events with these values of adherence and these sampling probabilities."""
    found = adherence(values, **changes)
    return [
        one.model_copy(update={"sampling_probability": float(p)}) for one, p in zip(found, probabilities, strict=True)
    ]


@pytest.mark.parametrize("asked", ["auto", "running", "wilson", "hoeffding", "normal"])
def test_with_one_probability_the_plain_mean_and_its_interval_stay_to_the_bit(asked: str) -> None:
    values = beta(0.8, 300, 1)
    plain = of(applied(adherence(values)), asked=asked)
    sampled = of(applied(kept(values, [0.1] * 300)), asked=asked)
    assert plain.n_traffic is None
    assert sampled.n_traffic == pytest.approx(3000)
    assert sampled.model_copy(update={"n_traffic": None}) == plain


def test_traffic_that_is_not_sampled_stores_what_it_stored_before() -> None:
    """A deployment that never samples pays nothing: no bytes in its checkpoint."""
    plain, sampled = (applied(kept(beta(0.8, 50, 1), [p] * 50)).take_changes().rows for p in (1.0, 0.5))
    assert plain.keys() == sampled.keys()
    more = {name: len(sampled[name]) - len(plain[name]) for name in plain}
    estimate_fields = {name for name in more if ADHERENCE in name and name.startswith(CheckpointField.ESTIMATE)}
    pane_fields = {name for name in more if ADHERENCE in name and name.startswith(CheckpointField.PANE)}
    assert {name for name, size in more.items() if size} == estimate_fields | pane_fields
    assert {more[name] for name in estimate_fields | pane_fields} == {177}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([1.0, 0.5, 0.1, 1e-3, 1e-9])), min_size=1, max_size=60))
def test_with_different_probabilities_the_mean_is_weighted(values: list[tuple[float, float]]) -> None:
    x, p = np.array(values).T
    found = of(applied(kept(x, p)))
    if np.unique(p).size == 1:
        assert found.estimate == pytest.approx(x.mean(), abs=1e-12)
        return
    w = 1 / p
    mean = (w * x).sum() / w.sum()
    assert found.estimate == pytest.approx(mean, abs=1e-9)
    assert (found.n, found.strategy) == (len(x), "asymptotic")
    assert found.n_traffic == pytest.approx(w.sum())
    low, high = ends(found)
    assert low <= mean + 1e-9
    assert mean <= high + 1e-9
    if len(x) > 1 and found.standard_deviation is not None:
        spread = (w * (x - mean) ** 2).sum() / w.sum()
        assert found.standard_deviation == pytest.approx(np.sqrt(spread * len(x) / (len(x) - 1)), abs=1e-6)
    # Numbers of the values as they were kept would be wrong numbers of the traffic.
    assert found.quantiles is None
    assert found.recent is None


def biased(n: int, seed: int, *, share: float = 0.1) -> tuple[Any, Any]:
    """Return values with mean 0.8 and the probabilities with which they were kept: the bad ones all."""
    rng = np.random.default_rng(seed)
    values = (rng.random(n) < 0.8).astype(float)
    probability = np.where(values < 1, 1.0, share)
    there = rng.random(n) < probability
    return values[there], probability[there]


def test_a_sample_that_holds_all_bad_answers_does_not_bias_the_mean() -> None:
    values, probability = biased(20_000, 3)
    plain = of(applied(adherence(values)))
    weighted = of(applied(kept(values, probability)))
    assert ends(plain)[1] < 0.4
    assert weighted.estimate == pytest.approx(0.8, abs=0.02)
    low, high = ends(weighted)
    assert low < 0.8 < high
    assert high - low < 0.06
    assert weighted.n_traffic == pytest.approx(20_000, rel=0.05)
    assert (weighted.n_effective or 0) > 0


def test_segments_windows_shares_and_errors_are_weighted() -> None:
    values, probability = biased(16_000, 5)
    events = [
        one.model_copy(
            update={
                "segments": {"lang": "de" if number % 2 else "en"},
                "gold_scores": {ADHERENCE: 1.0},
                "scores": {**one.scores, "trace.rmse_aggregation": 0.5 * (1 - one.scores[ADHERENCE])},
            }
        )
        for number, one in enumerate(kept(values, probability))
    ]
    state = applied(events)
    w = 1 / probability
    for segment, which in ((None, slice(None)), ("lang=de", slice(1, None, 2)), ("lang=en", slice(0, None, 2))):
        mean = (w[which] * values[which]).sum() / w[which].sum()
        assert of(state, segment=segment).estimate == pytest.approx(mean)
    hour = of(state, window="1h")
    assert hour.window_start is not None
    inside = np.array([hour.window_start <= one.occurred_at for one in events])
    assert hour.n == inside.sum() < len(events)
    assert hour.estimate == pytest.approx((w[inside] * values[inside]).sum() / w[inside].sum())
    assert hour.n_traffic == pytest.approx(w[inside].sum())
    assert hour.trend is not None
    wrong = (w * (1 - values)).sum() / w.sum()
    assert of(state, f"rmse.{ADHERENCE}").estimate == pytest.approx(np.sqrt(wrong))
    shares = of(state, "trace.rmse_aggregation").distribution
    assert shares[0].share == pytest.approx(1 - wrong)
    latency = of(state, "labeling.latency_s")
    assert latency.n_traffic is None


def test_later_gold_scores_have_the_weight_of_their_interaction() -> None:
    values, probability = biased(600, 6)
    events = kept(values, probability)
    at_once = applied([one.model_copy(update={"gold_scores": {ADHERENCE: 1.0}}) for one in events])
    later = applied(events)
    for one in events:
        assert gold_parts(one, {ADHERENCE: 1.0})
        later.apply_gold(one, {ADHERENCE: 1.0})
    for metric in (ADHERENCE, f"rmse.{ADHERENCE}"):
        found, other = of(later, metric), of(at_once, metric)
        assert (found.n, found.n_traffic, found.standard_deviation) == (
            other.n,
            other.n_traffic,
            other.standard_deviation,
        )
        assert (found.estimate, found.lower, found.upper) == (other.estimate, other.lower, other.upper)


def test_a_judges_sample_of_a_sample_has_the_product_of_both_weights() -> None:
    rng = np.random.default_rng(8)
    values, probability = biased(3_000, 8)
    truth = (rng.random(values.size) < 0.3 + 0.6 * values).astype(float)
    q = np.where(rng.random(values.size) < 0.5, 0.5, 1.0)
    events = [
        one.model_copy(
            update={
                "judged": JudgedScores(
                    labeler="judge", labeler_version="1", profile="ragbench", scores={ADHERENCE: float(y)},
                    inclusion_probability=float(chance),
                )
            }
        )
        for one, y, chance in zip(kept(values, probability), truth, q, strict=True)
    ]  # fmt: skip
    w = 1 / (probability * q)
    found = of(applied(events), labeler="judge", estimator="weighted")
    assert found.estimate == pytest.approx((w * truth).sum() / w.sum())
    # Its part that comes from the proxy scores is not a plain sample.
    assert not [
        estimate
        for estimate in estimates(applied(events), confidence=0.95)
        if estimate.estimator == "prediction_powered"
    ]
    # With one probability nothing changes but for rounding.
    same, plain = (
        of(
            applied([one.model_copy(update={"sampling_probability": p}) for one in events]),
            labeler="judge", estimator="prediction_powered",
        )
        for p in (0.1, 1.0)
    )  # fmt: skip
    assert (same.estimate, same.lower, same.upper) == pytest.approx((plain.estimate, plain.lower, plain.upper))


@pytest.mark.parametrize("options", [OPTIONS, StateOptions(panes=PANES, clusters=CLUSTERS)])
def test_partitions_of_a_split_pipeline_merge_their_weights(options: StateOptions) -> None:
    values, probability = biased(2_000, 9)
    events = [
        one.model_copy(update={"session_id": f"s-{number // 4}"})
        for number, one in enumerate(kept(values, probability))
    ]
    whole = applied(events, options)
    parts = [applied([one for n, one in enumerate(events) if n // 4 % 3 == part], options) for part in range(3)]
    together = AggregatorState.merged(parts, options)
    for name in ("all", "1h"):
        one, other = of(whole, window=name), of(together, window=name)
        assert other.estimate == pytest.approx(one.estimate)
        assert other.n == one.n
        assert other.n_traffic == pytest.approx(one.n_traffic)
        assert other.lower == pytest.approx(one.lower, abs=0.02)


def test_a_checkpoint_without_weights_goes_on_with_weights() -> None:
    before = applied(adherence(beta(0.6, 200, 1)))
    fields = dict(before.take_changes().rows)
    state = AggregatorState.from_fields(OPTIONS, fields)
    values, probability = beta(0.9, 200, 2), [0.5] * 200
    for one in kept(values, probability, first=200):
        state.apply(one)
    x = np.concatenate([beta(0.6, 200, 1), values])
    w = np.array([1.0] * 200 + [2.0] * 200)
    assert of(state).estimate == pytest.approx((w * x).sum() / w.sum())
    assert of(state).n_traffic == pytest.approx(600)
    # And again from its own checkpoint, to the bit.
    fields |= state.take_changes().rows
    assert of(AggregatorState.from_fields(OPTIONS, fields)) == of(state)
    (name,) = (name for name in fields if name.startswith(CheckpointField.ESTIMATE) and ADHERENCE in name)
    assert dropped_field(fields, name).n == 400


def test_a_row_of_another_version_is_refused_by_name() -> None:
    from ragtide_aggregator.errors import DamagedFieldError

    fields = dict(applied(kept([0.5, 1.0], [0.5, 0.1])).take_changes().rows)
    (name,) = (name for name in fields if name.startswith(CheckpointField.ESTIMATE) and ADHERENCE in name)
    data = bytearray(fields[name])
    data[-177] = 9
    with pytest.raises(DamagedFieldError, match="version 09"):
        AggregatorState.from_fields(OPTIONS, {**fields, name: bytes(data)})


def test_an_alert_says_that_its_rule_takes_interactions_as_they_were_kept() -> None:
    rule = AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.7)
    values = [0.9] * 20 + [0.1] * 200
    for probability, told in (([1.0] * 220, False), ([0.1] * 220, False), ([0.1] * 20 + [1.0] * 200, True)):
        state = applied(kept(values, probability), StateOptions(rules=(rule,)))
        (alert,) = state.take_changes().alerts
        assert ("different sampling probabilities" in alert.message) == told


def clustered(values: Any, probability: Any, size: int) -> list[MetricEvent]:
    return [
        one.model_copy(update={"session_id": f"s-{number // size}"})
        for number, one in enumerate(kept(values, probability))
    ]


def test_sessions_with_different_probabilities_count_as_a_whole() -> None:
    """Answers of a session that are all alike must not count as many answers."""
    rng = np.random.default_rng(11)
    sessions = (rng.random(1_000) < 0.8).astype(float)
    probability = np.where(rng.random(1_000) < 0.5, 0.25, 1.0)
    values, each = np.repeat(sessions, 4), np.repeat(probability, 4)
    single = of(applied(kept(values, each)))
    together = of(applied(clustered(values, each, 4), StateOptions(clusters=CLUSTERS)))
    assert together.estimate == pytest.approx(single.estimate)
    assert together.design_effect == pytest.approx(4, rel=0.03)
    wider = (ends(together)[1] - ends(together)[0]) / (ends(single)[1] - ends(single)[0])
    assert 1.7 < wider < 2.4
    assert together.n_effective == pytest.approx(single.n_effective / 4, rel=0.03)  # type: ignore[operator]


def test_sessions_before_the_sampling_began_count_as_a_whole_too() -> None:
    rng = np.random.default_rng(12)
    values = np.repeat((rng.random(1_000) < 0.7).astype(float), 4)
    probability = np.repeat(np.where(np.arange(1_000) < 900, 1.0, 0.5), 4)
    found = of(applied(clustered(values, probability, 4), StateOptions(clusters=CLUSTERS)))
    assert (found.design_effect or 0) > 3.5


def test_before_the_first_session_is_closed_the_whole_range_is_possible() -> None:
    events = clustered([1.0, 0.0, 1.0], [0.5, 1.0, 0.5], 4)
    found = of(applied(events, StateOptions(panes=PANES, clusters=CLUSTERS)))
    assert (found.lower, found.upper) == (0.0, 1.0)
    assert found.estimate == pytest.approx(0.8)


def test_events_with_impossible_probabilities_are_refused() -> None:
    for wrong in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="sampling_probability"):
            event(1, {ADHERENCE: 1.0}, sampling_probability=wrong)
