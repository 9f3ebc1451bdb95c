"""Metrics that are not ragtide's own: each event says their range, and no process needs another's memory."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.aggregator.test_arrow import recorded
from tests.aggregator.test_columns import OPTIONS, in_columns, one_by_one, outcome
from tests.support.event_columns import columns_of
from tests.support.metric_events import event

from ragtide import Alert, AlertRule, Estimate, InvalidEntryError
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.events.keys import EstimateKey, PairKey
from ragtide_aggregator.maintenance.repartitioned_fields import repartitioned
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_offline.replay import tables as arrow
from ragtide_runtime.redis.layout import Layout
from ragtide_schemas import Direction, JudgedScores, Kind, Measure, MetricDeclaration, MetricEvent

WORDS = "mine.words"
METRIC = "trace.adherence"


def declaration(upper: float = 1000.0, **fields: Any) -> MetricDeclaration:
    return MetricDeclaration(**{"lower": 0.0, "upper": upper, "meaning": "Words of the response.", **fields})


def words(number: int, value: float, declared: MetricDeclaration | None = None, **changes: Any) -> MetricEvent:
    return event(number, {METRIC: 0.5, WORDS: value}, declared={WORDS: declared or declaration()}, **changes)


def state_of(events: Sequence[MetricEvent], options: StateOptions | None = None) -> AggregatorState:
    state = AggregatorState(options or StateOptions())
    for one in events:
        state.apply(one)
    return state


def stored(state: AggregatorState) -> dict[str, bytes]:
    return dict(state.take_changes().rows)


def found(state: AggregatorState, metric: str = WORDS) -> list[Estimate]:
    return [estimate for estimate in estimates(state) if estimate.metric == metric]


def test_a_reader_of_the_checkpoint_takes_the_range_from_there() -> None:
    fields = stored(state_of([words(number, 120.0) for number in range(100)]))
    (one,) = found(AggregatorState.from_fields(StateOptions(), fields))
    assert (one.estimate, one.n, one.value_range, one.metric_version) == (120.0, 100, (0.0, 1000.0), "1")
    assert one.lower is not None
    assert one.upper is not None
    assert 0.0 <= one.lower < 120.0 < one.upper <= 1000.0


def test_versions_of_a_formula_and_ranges_of_one_name_are_never_mixed() -> None:
    state = state_of(
        [
            words(1, 100.0),
            words(2, 300.0, declaration(version="2")),
            words(3, 30.0, declaration(50.0)),
            words(4, 40.0, declaration(direction=Direction.HIGHER)),
            words(5, 500.0, declaration(kind=Kind.DISTRIBUTIVE)),
        ]
    )
    assert {(e.metric_version, e.value_range, e.direction, e.kind): e.estimate for e in found(state)} == {
        ("1", (0.0, 1000.0), Direction.NEITHER, Kind.ALGEBRAIC): 100.0,
        ("2", (0.0, 1000.0), Direction.NEITHER, Kind.ALGEBRAIC): 300.0,
        ("1", (0.0, 50.0), Direction.NEITHER, Kind.ALGEBRAIC): pytest.approx(30.0),
        ("1", (0.0, 1000.0), Direction.HIGHER, Kind.ALGEBRAIC): 40.0,
        ("1", (0.0, 1000.0), Direction.NEITHER, Kind.DISTRIBUTIVE): 500.0,
    }
    (adherence,) = found(state, METRIC)
    assert (adherence.n, adherence.metric_version) == (5, None)


def test_words_about_a_metric_may_change_and_the_newest_count() -> None:
    bands = {"minimum": 10.0, "good": 50.0, "excellent": 100.0}
    state = state_of([words(1, 120.0), words(2, 120.0, declaration(direction=Direction.NEITHER, bands=bands))])
    (one,) = found(state)
    definition = state.definition(next(key for key in state.keys if key.metric == WORDS))
    assert (one.n, definition is not None and definition.band(120.0)) == (2, "excellent")
    assert one.band is None, "the interval of two values is in no single band"


def test_a_score_that_nothing_declares_is_between_0_and_1() -> None:
    state = state_of([event(1, {WORDS: 0.4})])
    assert [(e.estimate, e.value_range, e.metric_version) for e in found(state)] == [(0.4, (0.0, 1.0), None)]
    with pytest.raises(InvalidEntryError, match="declare the range of your own metric"):
        state.apply(event(2, {WORDS: 120.0}))


def test_an_absent_metric_is_counted_where_its_scores_are() -> None:
    absent = event(2, {METRIC: 0.5}, absent={WORDS: "no_words"}, declared={WORDS: declaration()})
    (one,) = found(state_of([words(1, 120.0), absent]))
    assert (one.n, one.n_absent) == (1, 1)


def test_errors_against_gold_and_shares_are_in_the_metrics_unit() -> None:
    edged = declaration(edges=(100.0, 200.0))
    state = state_of([words(number, 120.0, edged, gold_scores={WORDS: 150.0}) for number in range(5)])
    (one,) = (e for e in found(state) if e.labeler == "test")
    assert [(share.upto, share.share) for share in one.distribution] == [(100.0, 0.0), (200.0, 1.0)]
    (error,) = found(state, f"rmse.{WORDS}")
    assert error.estimate == pytest.approx(30.0)
    assert error.value_range == (0.0, 1000.0)


def test_the_error_of_a_family_takes_the_newest_version_of_each_metric() -> None:
    state = state_of(
        [
            words(1, 100.0, gold_scores={WORDS: 600.0}),
            words(2, 100.0, declaration(version="2"), gold_scores={WORDS: 200.0}),
        ]
    )
    (error,) = found(state, "rmse.mine")
    assert error.estimate == pytest.approx(0.1)
    assert error.metric_version is None


def test_a_judges_scores_are_measured_as_declared_too() -> None:
    judged = JudgedScores(labeler="judge", labeler_version="1", profile="ragbench", scores={WORDS: 200.0}, uniform=True)
    by_estimator = {(e.labeler, e.estimator): e.estimate for e in found(state_of([words(1, 120.0, judged=judged)]))}
    assert by_estimator["test", "mean"] == 120.0
    assert by_estimator["judge", "mean"] == 200.0
    assert by_estimator["judge", "weighted"] == pytest.approx(200.0)


def test_a_rule_on_a_declared_metric_is_in_its_unit_and_says_its_meaning() -> None:
    rule = AlertRule(name="long", kind="threshold", metric=WORDS, target=300.0, direction="rise", min_effect=50.0)
    options = StateOptions(rules=(rule,))
    rng = np.random.default_rng(1)
    events = [words(number, float(value)) for number, value in enumerate(rng.normal(600.0, 50.0, 200))]
    first = state_of(events[:10], options)
    second = AggregatorState.from_fields(options, stored(first))
    alerts: list[Alert] = []
    for one in events[10:]:
        second.apply(one)
        alerts += second.take_changes().alerts
    (alert,) = alerts
    assert (alert.baseline, alert.metric_version) == (300.0, "1")
    assert alert.observed == pytest.approx(600.0, abs=30)
    assert alert.message.endswith("Meaning: Words of the response.")


def test_a_drift_rule_without_a_direction_goes_by_the_declared_one() -> None:
    rule = AlertRule(name="long", kind="drift", metric=WORDS, baseline=300.0, min_effect=10.0, run_length=100)
    lower_is_better = declaration(direction=Direction.LOWER)
    state = state_of([words(number, 900.0, lower_is_better) for number in range(100)], StateOptions(rules=(rule,)))
    (alert,) = state.take_changes().alerts
    assert alert.direction == "rise"


def mixed(n: int, seed: int) -> list[MetricEvent]:
    """Return events of several declarations, judged and graded ones among them, some outside their range."""
    rng = np.random.default_rng(seed)
    kinds = [
        declaration(), declaration(), declaration(), declaration(meaning="Other words."), declaration(version="2"),
        declaration(500.0, edges=(100.0,)), None,
    ]  # fmt: skip
    events = []
    for number in range(n):
        declared = kinds[rng.integers(len(kinds))]
        value = float(rng.uniform(0, 1 if declared is None else declared.upper * (2 if number % 10 == 0 else 1)))
        scores = {WORDS: value} if number % 7 else {}
        changes: dict[str, Any] = {"absent": {} if scores else {WORDS: "no_words"}}
        if number % 5 == 0:
            changes["gold_scores"] = {WORDS: 0.5}
        if number % 11 == 0:
            changes["judged"] = JudgedScores(
                labeler="judge", labeler_version="1", profile="ragbench", scores=scores, uniform=number % 2 == 0
            )
        events.append(event(number, scores, declared=declared and {WORDS: declared}, **changes))
    return events


@pytest.mark.parametrize("seed", range(3))
def test_events_in_columns_and_in_tables_are_the_same_events(seed: int) -> None:
    events = mixed(300, seed)
    expected = outcome(OPTIONS, one_by_one(events))
    assert expected[3]
    assert outcome(OPTIONS, in_columns(events, [0, 7, 150])) == expected
    table = recorded(events)

    def add(state: AggregatorState) -> list[tuple[str, str]]:
        refused = []
        for start, part in ((0, table.slice(0, 140)), (140, table.slice(140))):
            refused += [(start + column.place, column.error) for column in state.apply_columns(arrow.columns_of(part))]
        return [(events[place].interaction_id, str(error)) for place, error in refused]

    assert outcome(OPTIONS, add) == expected
    assert [arrow.columns_of(table).source.event(place) for place in range(len(events))] == events


def test_pipelines_that_declare_the_same_each_keep_the_declaration_in_columns() -> None:
    events = [words(number, 120.0, pipeline=f"p{number % 2}") for number in range(4)]
    assert outcome(OPTIONS, in_columns(events, [0])) == outcome(OPTIONS, one_by_one(events))


def test_a_recording_of_one_declaration_is_read_in_columns() -> None:
    events = [words(number, 120.0) for number in range(50)]
    assert not arrow.columns_of(recorded(events)).row_wise.any()
    assert not columns_of(events).row_wise.any()


def test_parts_of_a_split_pipeline_are_one_with_their_declarations() -> None:
    options = StateOptions()
    bands = {"minimum": 10.0, "good": 50.0, "excellent": 100.0}
    whole = AggregatorState.merged(
        [
            state_of([words(1, 100.0, declaration(bands=bands))]),
            state_of([words(2, 140.0, declaration(bands=bands))]),
        ],
        options,
    )
    (one,) = found(whole)
    assert one.estimate == pytest.approx(120.0)
    definition = whole.definition(next(key for key in whole.keys if key.metric == WORDS))
    assert (one.n, definition is not None and definition.band(120.0)) == (2, "excellent")


def test_declarations_move_with_their_pipeline() -> None:
    fields = stored(state_of([words(1, 120.0)]))
    old, new = Layout("ragtide", 1), Layout("ragtide", 8)
    moved = repartitioned(old, new, {0: fields})
    assert moved[new.of("shop", "i-1").partition] == {
        name: data for name, data in fields.items() if name != "clock"
    } | {name: data for name, data in moved[new.of("shop", "i-1").partition].items() if name == "clock"}


MEASURE = Measure("2", 0.0, 1000.0, Direction.LOWER, Kind.DISTRIBUTIVE)
BUILT_IN = EstimateKey("shop", None, None, METRIC, "ragbench", "local", "1")


def test_keys_of_ragtides_own_metrics_have_no_declaration() -> None:
    assert BUILT_IN.encode() == '["shop",null,null,"trace.adherence","ragbench","local","1"]'
    pair = PairKey.of(BUILT_IN, "judge", "1", "ragbench")
    assert pair.encode() == f'[{BUILT_IN.encode()},"judge","1","ragbench"]'
    mine = BUILT_IN._replace(metric=WORDS, measure=MEASURE)
    for key in (BUILT_IN, mine):
        assert EstimateKey.decode(key.encode()) == key
        assert PairKey.decode(PairKey.of(key, "judge", "1", "p").encode()).proxy == key
    assert json.loads(mine.encode())[-1] == ["2", 0.0, 1000.0, "lower", "distributive"]
