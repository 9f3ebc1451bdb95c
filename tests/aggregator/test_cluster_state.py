"""Interactions of one session in the state: they count in intervals and alert rules when their cluster is closed."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.support.event_columns import columns_of
from tests.support.metric_events import event

from ragtide import AlertRule
from ragtide_aggregator.estimates.assumptions import dependent_pipelines
from ragtide_aggregator.estimates.estimates import estimates, metric_means
from ragtide_aggregator.estimates.view import IntervalMethod
from ragtide_aggregator.events.values import gold_parts
from ragtide_aggregator.maintenance.repair import dropped_field, may_be_dropped
from ragtide_aggregator.maintenance.repartitioned_fields import repartitioned
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.means.clustered_interval import clustered_interval
from ragtide_aggregator.statistics.means.clusters import ClusterTable
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.alerting import BLOCKS, ClusterSettings
from ragtide_schemas import MetricEvent

ADHERENCE, RELEVANCE = "trace.adherence", "trace.context_relevance"
MINUTE = 60_000
CLUSTERS = ClusterSettings(size=4, quiet_s=30, open_cap=4)
RULES = (AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.7),)


def restored(state: AggregatorState, fields: dict[str, bytes], options: StateOptions) -> AggregatorState:
    """Return a state from what the checkpoint holds after a commit of the state."""
    changes = state.take_changes()
    for name in changes.gone:
        fields.pop(name, None)
    fields.update(changes.rows)
    return AggregatorState.from_fields(options, fields)


def of(state: AggregatorState, metric: str = ADHERENCE, **wanted: Any) -> Any:
    """Return the estimate of a metric of the whole pipeline over all time."""
    (found,) = [
        estimate
        for estimate in estimates(state, strategy="auto", confidence=0.95)
        if estimate.metric == metric
        and estimate.window == "all"
        and estimate.segment is None
        and estimate.labeler == "test"
        if all(getattr(estimate, name) == value for name, value in wanted.items())
    ]
    return found


def ends(clusters: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the interval over closed clusters, from its definition."""
    table = ClusterTable()
    row = np.array([table.add_row()])
    for values in clusters:
        table.update(row, np.array([len(values)]), np.array([float(sum(values))]))
    lower, upper = clustered_interval(table.read(row), confidence=0.95)
    return float(lower[0]), float(upper[0])


def applied(events: Sequence[MetricEvent], **changes: Any) -> AggregatorState:
    state = AggregatorState(StateOptions(**{"clusters": CLUSTERS, **changes}))
    for one in events:
        state.apply(one)
    return state


def in_sessions(values: Sequence[Sequence[float]], gap_s: int = 1) -> list[MetricEvent]:
    """Return events of sessions one after the other."""
    flat = [(number, value) for number, session in enumerate(values) for value in session]
    return [event(gap_s * i, {ADHERENCE: value}, session_id=f"s-{number}") for i, (number, value) in enumerate(flat)]


def test_a_cluster_counts_when_it_is_full_or_quiet_and_not_before() -> None:
    full = [[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]] * 20
    state = applied([*in_sessions(full), event(200, {ADHERENCE: 1.0}, session_id="late")])
    found = of(state)
    assert (found.n, found.lower, found.upper) == (161, *ends(full))
    assert found.n_clusters == 40
    # 30 seconds without an interaction close the session; the next one is another cluster.
    state.apply(event(229, {ADHERENCE: 0.0}, session_id="late"))
    assert (of(state).lower, of(state).upper) == ends(full)
    state.apply(event(259, {ADHERENCE: 0.0}, session_id="other"))
    assert (of(state).lower, of(state).upper) == ends([*full, [1.0, 0.0]])
    assert of(state).n_clusters == 41


def test_before_the_first_cluster_is_closed_the_whole_range_is_possible() -> None:
    """Interactions of one open cluster may all go well or badly together: an interval by item would miss too often."""
    events = in_sessions([[1.0] * 39])
    options = ClusterSettings(size=40, quiet_s=30)
    panes = Panes((window("1m"),), 600_000)
    state = applied(events, clusters=options, panes=panes)
    for found in estimates(state, strategy="auto", confidence=0.95):
        if found.metric == ADHERENCE:
            assert (found.n, found.estimate, found.lower, found.upper) == (39, 1.0, 0.0, 1.0)
            assert (found.n_clusters, found.n_effective) == (0, 0.0)
            assert found.n_waiting == (39 if found.window == "all" else 0)
    whole = AggregatorState.merged(
        [state, applied([], clusters=options, panes=panes)], StateOptions(clusters=options, panes=panes)
    )
    assert (of(whole).n, of(whole).lower) == (39, 0.0)
    state.apply(event(39, {ADHERENCE: 1.0}, session_id="s-0"))
    # Forty equal answers of one cluster say as much as one answer.
    assert (of(state).lower, of(state).upper) == ends([[1.0] * 40])
    assert of(state).n_waiting == 0


def test_the_effective_number_is_that_of_the_answers_on_which_the_interval_rests() -> None:
    luck = np.random.default_rng(1).random(300) < 0.85
    closed = in_sessions([[float(one)] * 4 for one in luck])
    waiting = [event(1_200 + number, {ADHERENCE: 1.0}, session_id=f"open-{number}") for number in range(500)]
    state = applied([*closed, *waiting], clusters=ClusterSettings(size=4, quiet_s=10000))
    found = of(state)
    assert (found.n, found.n_clusters, found.n_waiting) == (1_700, 300, 500)
    assert found.n_effective == pytest.approx(1_200 / (found.design_effect or 0))
    (mean,) = [mean for mean in metric_means(state, IntervalMethod("auto", 0.95)) if mean.key.metric == ADHERENCE]
    assert mean.n_waiting == 500


def test_sessions_that_depend_on_each_other_have_wider_intervals_than_single_answers() -> None:
    luck = np.random.default_rng(1).random(300) < 0.85
    values = [[float(one)] * 4 for one in luck]
    clustered = of(applied(in_sessions(values)))
    single = of(applied(in_sessions(values), clusters=None))
    assert clustered.estimate == single.estimate
    assert clustered.upper - clustered.lower > 1.5 * (single.upper - single.lower)
    # Four equal answers say as much as one.
    assert clustered.design_effect == pytest.approx(4, rel=0.1)
    assert clustered.n_effective == pytest.approx(300, rel=0.1)
    assert (single.design_effect, single.n_effective) == (None, None)
    # The last session is full, too.
    assert (clustered.n_clusters, single.n_clusters) == (300, None)


def test_only_an_interval_over_clusters_states_their_number() -> None:
    state = applied(in_sessions([[1.0, 0.0, 1.0, 1.0]] * 60))
    known = {"running": 60, "auto": 60, "normal": None, "asymptotic": None, "hoeffding": None}
    for strategy, expected in known.items():
        found = [estimate for estimate in estimates(state, strategy=strategy) if estimate.metric == ADHERENCE]
        assert [one.n_clusters for one in found] == [expected]
    labeling = [estimate for estimate in estimates(state, strategy="auto") if estimate.strategy == "none"]
    assert labeling
    assert {one.n_clusters for one in labeling} == {None}


def test_an_interaction_by_itself_is_a_cluster_of_one_and_without_sessions_nothing_changes() -> None:
    values = np.random.default_rng(2).random(50).tolist()
    alone = [event(number, {ADHERENCE: value}) for number, value in enumerate(values)]
    assert of(applied(alone)) == of(applied(alone, clusters=None))
    mixed = applied([event(100, {ADHERENCE: 0.5}, session_id="s"), *alone])
    assert (of(mixed).lower, of(mixed).upper) == ends([[value] for value in values])


def test_values_before_the_first_session_count_as_single_values() -> None:
    values = np.random.default_rng(2).random(400).tolist()
    alone = [event(number, {ADHERENCE: value}) for number, value in enumerate(values)]
    before = of(applied(alone))
    after = of(applied([*alone, *(event(500 + i, {ADHERENCE: 0.5}, session_id="s") for i in range(4))]))
    assert after.n == 404
    assert (before.n_clusters, after.n_clusters) == (None, 401)
    assert after.upper - after.lower == pytest.approx(before.upper - before.lower, rel=0.25)


def test_too_many_open_clusters_close_the_longest_quiet_one() -> None:
    options = ClusterSettings(size=4, quiet_s=604800, open_cap=3)
    events = [event(number, {ADHERENCE: number % 2 / 1.0}, session_id=f"s-{number}") for number in range(50)]
    state = applied(events, clusters=options)
    fields = state.take_changes().rows
    assert sum(name.startswith(CheckpointField.OPEN_CLUSTER) for name in fields) == 4
    found = of(state)
    assert (found.lower, found.upper) == ends([[number % 2 / 1.0] for number in range(46)])
    assert (found.n, found.n_clusters) == (50, 46)
    # A session that the cap closed early counts as another cluster when it goes on.
    for second in range(4):
        state.apply(event(100 + second, {ADHERENCE: 1.0}, session_id="s-0"))
    # 51 clusters of 50 sessions; two are open.
    assert of(state).n_clusters == 49


def test_a_full_session_goes_on_as_the_next_cluster() -> None:
    state = applied(in_sessions([[1.0] * 10]))
    state.apply(event(100, {ADHERENCE: 1.0}, session_id="x"))
    assert (of(state).lower, of(state).upper) == ends([[1.0] * 4, [1.0] * 4, [1.0] * 2])
    assert of(state).n_clusters == 3


@pytest.mark.parametrize(
    ("by", "fields", "together"),
    [
        ("auto", {"cluster": "c", "session_id": None}, True),
        ("cluster", {"session_id": "s"}, False),
        ("session_id", {"session_id": "s", "user_id": "u"}, True),
        ("user_id", {"user_id": "u"}, True),
        ("user_id", {"session_id": "s"}, False),
        ("segment:tenant", {"segments": {"tenant": "acme"}}, True),
        ("segment:tenant", {"segments": {"lang": "de"}}, False),
        (BLOCKS, {}, True),
    ],
)
def test_the_choice_of_clusters(by: str, fields: dict[str, Any], together: bool) -> None:
    options = ClusterSettings(by=by, size=4, block=4, quiet_s=30)
    values = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    events = [event(number, {ADHERENCE: value}, **fields) for number, value in enumerate(values)]
    found = of(applied(events, clusters=options))
    if together:
        assert (found.lower, found.upper) == ends([values[:4], values[4:]])
    else:
        assert found == of(applied(events, clusters=None))


def test_blocks_are_as_long_as_the_dependence_reaches_wherever_events_are_cut() -> None:
    luck = np.repeat(np.random.default_rng(5).random(1_300) < 0.85, 5)
    events = [event(number, {ADHERENCE: float(value)}) for number, value in enumerate(luck)]
    options = StateOptions(rules=RULES, clusters=ClusterSettings(by=BLOCKS))
    whole = AggregatorState(options)
    whole.apply_columns(columns_of(events))
    expected = whole.take_changes()
    state, fields = AggregatorState(options), dict[str, bytes]()
    for start, end in pairwise([0, 1_000, 5_119, 5_121, 6_000, len(events)]):
        state.apply_columns(columns_of(events[start:end]))
        state = restored(state, fields, options)
    assert fields == dict(expected.rows)
    found = of(whole)
    # Five equal answers in a row say as much as one.
    assert found.design_effect == pytest.approx(5, rel=0.3)
    blocks = [luck[at : at + 64].astype(float).tolist() for at in range(0, 5_120, 64)]
    lower, upper = ends(blocks)
    assert found.lower == pytest.approx(lower, abs=0.03)
    assert found.upper == pytest.approx(upper, abs=0.03)


def test_dependence_without_clusters_is_shown_and_named_in_alerts() -> None:
    rng = np.random.default_rng(6)
    luck = np.repeat(rng.random(400) < 0.85, 10)
    fall = np.repeat(rng.random(40) < 0.3, 10)
    rule = AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.75, run_length=1e6)
    events = [event(number, {ADHERENCE: float(one)}) for number, one in enumerate([*luck, *fall])]
    state = applied(events, rules=(rule,))
    fired = [alert for alert in state.take_changes().alerts if alert.status == "firing"]
    assert fired
    assert fired[-1].design_effect == pytest.approx(8, rel=0.5)
    assert "depend on each other (design effect" in fired[-1].message
    assert "Set clusters.by" in fired[-1].message
    (found,) = dependent_pipelines(state)
    assert (found.pipeline, found.metric) == ("shop", ADHERENCE)
    assert of(state).design_effect == pytest.approx(found.design_effect)
    assert of(state).n_effective == pytest.approx(len(events) / found.design_effect)
    independent = [event(number, {ADHERENCE: float(one)}) for number, one in enumerate(rng.random(3_000) < 0.85)]
    assert dependent_pipelines(applied(independent)) == []


def test_the_fall_that_an_alert_reports_is_not_taken_for_dependence() -> None:
    rng = np.random.default_rng(7)
    rule = AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.75, run_length=1e6)
    scores = np.concatenate([rng.random(800) < 0.85, rng.random(400) < 0.5])
    state = applied([event(number, {ADHERENCE: float(score)}) for number, score in enumerate(scores)], rules=(rule,))
    (fired,) = state.take_changes().alerts
    assert fired.design_effect == pytest.approx(1, abs=0.4)
    assert "depend on each other" not in fired.message


def test_a_past_incident_is_not_taken_for_dependence() -> None:
    """Independent answers, an incident of 600 and a recovery; the next alert does not advise clusters."""
    rng = np.random.default_rng(8)
    rule = AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.75, run_length=1e6)
    means = np.repeat([0.85, 0.2, 0.85, 0.2], [2_000, 600, 3_000, 100])
    scores = (rng.random(means.size) < means).astype(float)
    state = applied([event(number, {ADHERENCE: float(score)}) for number, score in enumerate(scores)], rules=(rule,))
    alerts = [alert for alert in state.take_changes().alerts if alert.status == "firing"]
    assert len(alerts) == 2
    for alert in alerts:
        assert alert.design_effect is not None
        assert alert.design_effect < 2
        assert (alert.dependence, "depend on each other" in alert.message) == (None, False)
    assert dependent_pipelines(state) == []


def test_a_rule_fires_on_sessions_and_names_the_worst_answers() -> None:
    rule = AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.8, run_length=1000)
    good, bad = [[1.0, 1.0, 0.0, 1.0, 1.0][:4]] * 30, [[0.0, 0.25, 0.5, 0.0]] * 20
    state = applied(in_sessions([*good, *bad]), rules=(rule,))
    (fired,) = state.take_changes().alerts
    assert fired.status == "firing"
    assert fired.n is not None
    assert fired.n > 120
    assert fired.n % 4 == 0
    assert fired.observed_n is not None
    assert fired.observed_n % 4 == 0
    assert fired.worst_interaction_ids
    values = {one.interaction_id: one.scores[ADHERENCE] for one in in_sessions([*good, *bad])}
    assert {values[name] for name in fired.worst_interaction_ids} == {0.0}


def test_windows_hold_the_clusters_whose_last_interaction_is_in_them() -> None:
    panes = Panes((window("1m"),), 600_000)
    first, second = [[1.0, 0.0, 1.0, 1.0]] * 15, [[0.0, 0.0, 1.0, 0.0]] * 10
    state = applied(in_sessions([*first, *second]), panes=panes)
    every = estimates(state, strategy="auto", confidence=0.95)
    (found,) = [one for one in every if (one.window, one.metric) == ("1m", ADHERENCE)]
    assert (found.n, found.lower, found.upper) == (40, *ends(second))
    assert found.n_clusters == 10


def test_gold_scores_that_come_later_are_values_of_their_own_clusters() -> None:
    events = in_sessions([[1.0, 0.5, 0.0, 1.0]] * 10)
    state = applied(events)
    for one in events:
        (part,) = gold_parts(one, {ADHERENCE: 1.0})
        state.apply_gold(part.event, {ADHERENCE: 1.0})
    found = of(state, f"rmse.{ADHERENCE}")
    lower, upper = ends([[0.0, 0.25, 1.0, 0.0]] * 10)
    assert (found.lower, found.upper) == pytest.approx((lower**0.5, upper**0.5))


def test_partitions_of_a_split_pipeline_merge_their_clusters() -> None:
    sessions = [[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]] * 20
    events = in_sessions(sessions)
    options = StateOptions(clusters=CLUSTERS)
    halves = [applied(events[:80]), applied(events[80:])]
    whole, split = of(applied(events)), of(AggregatorState.merged(halves, options))
    assert (split.n, split.estimate) == (whole.n, whole.estimate)
    assert split.upper - split.lower == pytest.approx(whole.upper - whole.lower, rel=0.1)


def test_without_clusters_in_the_settings_their_fields_are_removed() -> None:
    state = applied(in_sessions([[1.0, 0.0, 1.0, 1.0], [1.0]]))
    fields = dict(state.take_changes().rows)
    kinds = (
        CheckpointField.CLUSTERS, CheckpointField.CLUSTER_SCOPE, CheckpointField.OPEN_CLUSTER,
        CheckpointField.DEPENDENCE,
    )  # fmt: skip
    stored = {name for name in fields if name.startswith(kinds)}
    assert {name.partition(":")[0] + ":" for name in stored} == set(kinds)
    plain = AggregatorState.from_fields(StateOptions(), fields)
    assert set(plain.take_changes().gone) == stored


def test_a_repair_that_drops_a_key_or_the_counts_of_a_pipeline_leaves_the_rest_readable() -> None:
    sessions = [[1.0, 0.0, 1.0, 1.0]] * 12
    fields = dict(
        applied([*in_sessions(sessions), event(100, {ADHERENCE: 1.0}, session_id="open")]).take_changes().rows
    )
    (estimate,) = (name for name in fields if name.startswith(CheckpointField.ESTIMATE) and ADHERENCE in name)
    dropped = set(dropped_field(fields, estimate).fields)
    for kind in (CheckpointField.CLUSTERS, CheckpointField.DEPENDENCE):
        assert any(name.startswith(kind) for name in dropped)
    options = StateOptions(clusters=CLUSTERS)
    without_key = {name: data for name, data in fields.items() if name not in dropped}
    state = AggregatorState.from_fields(options, without_key)
    state.apply(event(101, {ADHERENCE: 0.0}, session_id="open"))
    state.apply(event(200, {ADHERENCE: 0.0}, session_id="other"))
    assert (of(state).n, of(state).lower, of(state).upper) == (2, *ends([[0.0]]))
    (scope,) = (name for name in fields if name.startswith(CheckpointField.CLUSTER_SCOPE))
    assert may_be_dropped(scope)
    state = AggregatorState.from_fields(options, {name: data for name, data in fields.items() if name != scope})
    state.apply(event(200, {ADHERENCE: 0.0}, session_id="other"))
    assert (of(state).lower, of(state).upper) == ends([*sessions, [1.0]])


def test_clusters_move_with_their_pipeline_to_another_partition() -> None:
    state = applied([*in_sessions([[1.0, 0.0, 1.0, 1.0]] * 3), event(50, {ADHERENCE: 1.0}, session_id="open")])
    fields = dict(state.take_changes().rows)
    moved = repartitioned(Layout("ragtide", 1), Layout("ragtide", 4), {0: fields})
    (partition,) = (number for number, found in moved.items() if any(name.startswith("clusters:") for name in found))
    kinds = ("clusters:", "cluster_scope:", "open_cluster:", "estimate:")
    expected = {name for name in fields if name.startswith(kinds)}
    assert {name for name in moved[partition] if name.startswith(kinds)} == expected
