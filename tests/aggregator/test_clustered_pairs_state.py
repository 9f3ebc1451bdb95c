"""Pairs of a reference and a proxy score in the state: their intervals are over closed clusters."""

from collections.abc import Sequence
from math import fsum
from typing import Any

import numpy as np
import pytest
from tests.support.metric_events import event

from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.maintenance.repair import dropped_field
from ragtide_aggregator.state.open_clusters import OpenCluster, ShortNames, cluster_from_bytes, cluster_to_bytes
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.pairs.clustered_pairs import ClusteredPairs, PairsOfClusters
from ragtide_aggregator.statistics.pairs.prediction_powered import PairTable
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import Estimate, JudgedScores, MetricEvent

ADHERENCE = "trace.adherence"
OPTIONS = StateOptions(clusters=ClusterSettings(size=4, quiet_s=30, open_cap=4))
Step = tuple[MetricEvent, bool]
"""An event, or later gold scores of an event."""


def judged(score: float, probability: float = 0.5) -> JudgedScores:
    return JudgedScores(
        labeler="judge", labeler_version="1", profile="ragbench", scores={ADHERENCE: score}, uniform=True,
        inclusion_probability=probability,
    )  # fmt: skip


def gold_of(one: MetricEvent) -> float:
    return float(one.scores[ADHERENCE] > 0.5)


def apply(state: AggregatorState, steps: Sequence[Step]) -> AggregatorState:
    for one, is_gold in steps:
        if is_gold:
            state.apply_gold(one, {ADHERENCE: gold_of(one)})
        else:
            state.apply(one)
    return state


def of(state: AggregatorState, estimator: str, labeler: str = "judge") -> Estimate:
    found = [
        estimate
        for estimate in estimates(state, strategy="auto", confidence=0.95)
        if (estimate.estimator, estimate.labeler, estimate.segment) == (estimator, labeler, None)
    ]
    # The judge's scores have gold scores, too, but there are fewer of them.
    return max(found, key=lambda one: one.n)


def sessions(count: int, seed: int = 1, *, size: int = 4, **changes: Any) -> list[list[MetricEvent]]:
    """Return sessions one after the other; half of the items are judged, and go well or badly with their session."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        luck = rng.random() < 0.6
        members = []
        for item in range(size):
            true = float(rng.random() < (0.9 if luck else 0.2))
            members.append(
                event(
                    size * number + item,
                    {ADHERENCE: 0.5 * true + 0.5 * float(rng.random())},
                    session_id=f"s-{seed}-{number}",
                    judged=judged(true) if rng.random() < 0.5 else None,
                    **changes,
                )
            )
        found.append(members)
    return found


def flat(events: Sequence[Sequence[MetricEvent]]) -> list[Step]:
    return [(member, False) for members in events for member in members]


def table_of(events: Sequence[Sequence[MetricEvent]], *, late: bool = False) -> ClusteredPairs:
    """Return the sums over sessions, from their definition."""
    table = ClusteredPairs()
    table.add_row()
    for members in events:
        scores = [
            (member.judged.scores[ADHERENCE], member.scores[ADHERENCE], 0.5)
            for member in members
            if member.judged is not None
        ]
        if scores:
            n = len(scores)
            total = fsum(member.scores[ADHERENCE] for member in members)
            table.update(
                PairsOfClusters(
                    np.zeros(n, dtype=np.intp), np.array(scores).T, np.full(n, late), np.zeros(n, dtype=np.intp),
                    np.zeros(1, dtype=np.intp), np.array([len(members)]), np.array([total]),
                )
            )  # fmt: skip
    return table


def pair_field(state: AggregatorState) -> bytes:
    """Return the pairs of the whole pipeline with the judge."""
    (found,) = [
        data
        for name, data in state.take_changes().rows.items()
        if name.startswith(CheckpointField.PAIR) and '"judge"' in name
    ]
    return found


def test_pairs_count_in_the_interval_when_their_cluster_is_closed() -> None:
    events = sessions(200)
    state = apply(AggregatorState(OPTIONS), [*flat(events), (event(900, {ADHERENCE: 0.1}, session_id="x"), False)])
    assert pair_field(state)[PairTable.SIZE :] == table_of(events).to_bytes(0)
    before = of(state, "weighted")
    open_one = event(901, {ADHERENCE: 0.0}, session_id="x", judged=judged(0.0))
    state.apply(open_one)
    after = of(state, "weighted")
    assert after.n == before.n + 1
    assert after.estimate is not None
    assert before.estimate is not None
    assert after.estimate < before.estimate
    assert (after.lower, after.upper) == (before.lower, before.upper)
    # Half a minute without an interaction closes the session.
    state.apply(event(950, {ADHERENCE: 0.0}, session_id="y"))
    assert of(state, "weighted").lower != before.lower


def test_sessions_that_go_well_or_badly_together_have_wider_intervals() -> None:
    steps = flat(sessions(400))
    clustered, single = apply(AggregatorState(OPTIONS), steps), apply(AggregatorState(StateOptions()), steps)
    with_pairs = len({one.session_id for one, _ in steps if one.judged is not None})
    for estimator in ("weighted", "prediction_powered"):
        wide, narrow = of(clustered, estimator), of(single, estimator)
        assert (wide.estimate, wide.n) == (narrow.estimate, narrow.n)
        assert wide.upper is not None
        assert wide.lower is not None
        assert narrow.upper is not None
        assert narrow.lower is not None
        assert wide.upper - wide.lower > 1.1 * (narrow.upper - narrow.lower)
        assert wide.design_effect is not None
        assert wide.design_effect > 1.2
        assert wide.n_effective is not None
        assert narrow.n_effective is not None
        assert (wide.n_clusters, narrow.n_clusters) == (with_pairs, None)
        assert wide.n_effective < 0.9 * narrow.n_effective
        assert narrow.design_effect is None


def test_interactions_by_themselves_have_the_numbers_of_a_state_without_clusters() -> None:
    alone = [(member.model_copy(update={"session_id": None}), False) for members in sessions(100) for member in members]
    steps = [*alone, *((one, True) for one, _ in alone)]
    clustered, single = apply(AggregatorState(OPTIONS), steps), apply(AggregatorState(StateOptions()), steps)
    fields = clustered.take_changes().rows
    for name, data in single.take_changes().rows.items():
        if name.startswith(CheckpointField.PAIR):
            assert fields[name] == data
    for estimator in ("weighted", "prediction_powered"):
        for labeler in ("judge", "gold"):
            one, other = of(clustered, estimator, labeler), of(single, estimator, labeler)
            assert one == other
            # Once there is a session, all pairs before it are single ones.
            begun = apply(AggregatorState(OPTIONS), [*steps, (event(900, {ADHERENCE: 0.5}, session_id="x"), False)])
            for end in ("lower", "upper"):
                assert getattr(of(begun, estimator, labeler), end) == pytest.approx(getattr(one, end), abs=0.005)


def test_gold_scores_belong_to_the_open_session_and_are_late_for_a_closed_one() -> None:
    events = sessions(100)
    in_time = apply(AggregatorState(OPTIONS), [step for one in events for step in session_with_gold(one)])
    late = apply(
        AggregatorState(OPTIONS), [*flat(events), *((member, True) for members in events for member in members)]
    )
    numbers = [(of(state, "weighted", "gold"), of(state, "prediction_powered", "gold")) for state in (in_time, late)]
    (weighted, powered), (late_weighted, late_powered) = numbers
    assert weighted.n == 400
    assert late_weighted.n == 400
    assert late_weighted.estimate == weighted.estimate
    assert (weighted.n_clusters, late_weighted.n_clusters) == (100, 100)
    assert late_weighted.lower == pytest.approx(weighted.lower, abs=0.02)
    # The proxy scores of late pairs are not known to their clusters, so the worst case is assumed.
    assert late_powered.lower is not None
    assert powered.lower is not None
    assert late_powered.lower < powered.lower
    # Late gold scores do not mean that a session was closed too early.
    assert dict(late.continued) == {("shop", None): (0, 0)}
    # Gold scores of a session that come together are one cluster: their number is that of the sessions.
    assert late_weighted.design_effect == pytest.approx(weighted.design_effect, rel=0.2)


def session_with_gold(members: Sequence[MetricEvent]) -> list[Step]:
    """Return a session whose gold scores come before its last interaction."""
    *first, last = members
    last = last.model_copy(update={"gold_scores": {ADHERENCE: gold_of(last)}})
    return [*((one, False) for one in first[:1]), *flat([first[1:]]), *((one, True) for one in first), (last, False)]


def test_a_judges_scores_are_in_the_cluster_of_their_interaction_that_fills_it() -> None:
    options = StateOptions(clusters=OPTIONS.clusters)
    events = [
        event(number, {ADHERENCE: 0.5}, session_id=f"s-{number // 4}", judged=judged(float(number // 4 % 2)))
        for number in range(80)
    ]
    state = apply(AggregatorState(options), [(one, False) for one in events])
    assert dict(state.continued) == {("shop", None): (0, 0)}
    # Twenty sessions of four judged interactions each, all of them closed.
    row = next(number for number, key in enumerate(state.keys) if (key.metric, key.labeler) == (ADHERENCE, "judge"))
    sums = state.cluster_sums(np.array([row]))
    assert sums is not None
    assert (sums.count[0], sums.n[0], sums.sizes[0]) == (20, 80, 320)


def test_an_open_cluster_of_another_version_is_refused() -> None:
    names = ShortNames(), ShortNames()
    data = cluster_to_bytes(OpenCluster(5, 7, 9, 8, 0), *names)
    assert cluster_from_bytes(5, data, *names) == OpenCluster(5, 7, 9, 8, 0)
    with pytest.raises(ValueError, match="version"):
        cluster_from_bytes(5, b"\x09" + data[1:], *names)


def test_without_clusters_in_the_settings_each_pair_counts_by_itself_again() -> None:
    steps = flat(sessions(200))
    fields = dict(apply(AggregatorState(OPTIONS), steps).take_changes().rows)
    plain = AggregatorState.from_fields(StateOptions(), fields)
    single = apply(AggregatorState(StateOptions()), steps)
    assert of(plain, "weighted") == of(single, "weighted")
    assert of(plain, "prediction_powered") == of(single, "prediction_powered")


def test_partitions_of_a_split_pipeline_merge_their_pairs() -> None:
    events = sessions(300)
    whole = apply(AggregatorState(OPTIONS), flat(events))
    halves = [apply(AggregatorState(OPTIONS), flat(part)) for part in (events[:100], events[100:])]
    split = AggregatorState.merged(halves, OPTIONS)
    for estimator in ("weighted", "prediction_powered"):
        one, other = of(whole, estimator), of(split, estimator)
        assert one.n == other.n
        for name in ("estimate", "lower", "upper"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-3)


def test_a_repair_that_drops_a_key_leaves_open_clusters_readable() -> None:
    events = sessions(3, size=3)
    fields = dict(apply(AggregatorState(OPTIONS), flat(events)).take_changes().rows)
    (key,) = (
        name
        for name in fields
        if name.startswith(CheckpointField.ESTIMATE) and f'"{ADHERENCE}","ragbench","test"' in name
    )
    dropped = set(dropped_field(fields, key).fields)
    assert any(name.startswith(CheckpointField.PAIR) for name in dropped)
    state = AggregatorState.from_fields(OPTIONS, {name: data for name, data in fields.items() if name not in dropped})
    state.apply(event(100, {ADHERENCE: 0.5}, session_id="x", judged=judged(1.0)))
    assert of(state, "weighted").n == 1
