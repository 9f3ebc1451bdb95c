"""No valid entry, in any order, ends an aggregator: whatever the schema admits, extremes of every field included."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.aggregator.test_not_aggregatable import STREAMS, caught_up, letters, running
from tests.support.conditions import until
from tests.support.event_columns import columns_of
from tests.support.models import EVENT, FEEDBACK, PROBABILITY

from ragtide import AlertRule, Feedback, InvalidEntryError, MetricEvent
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.estimates.estimates import STRATEGIES, estimates
from ragtide_aggregator.state.feedback_joiner import judge_feedback
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import LONGEST_MS, window
from ragtide_runtime.redis.keys import DATA_FIELD, interaction_digest
from ragtide_runtime.settings.alerting import BudgetSettings
from ragtide_schemas import EvaluatorScores, JudgedScores, MetricDeclaration, Reason, to_milliseconds
from ragtide_schemas.limits import COST_MAX_USD, COUNTER_MAX, LATENCY_MAX_S, PROBABILITY_MIN, TIME_MAX, TIME_MIN

pytestmark = pytest.mark.simulation

METRICS = ("trace.adherence", "trace.context_relevance", "trace.rmse_aggregation", "own.metric")
OPTIONS = StateOptions(
    rules=(
        AlertRule(name="floor", kind="threshold", metric=METRICS[0], target=0.7, run_length=20),
        AlertRule(name="drift", kind="drift", metric=METRICS[1], learn_n=20, run_length=10, direction="both"),
        AlertRule(name="window", kind="drift", metric=METRICS[0], baseline_window="1h", learn_n=20),
        AlertRule(name="error", kind="rmse", metric=METRICS[0], target=0.2, run_length=10),
        AlertRule(name="shape", kind="distribution", metric=METRICS[2], learn_n=20, run_length=10),
    ),
    panes=Panes((window("1s"), window("24h/1h"), window(f"{LONGEST_MS // 86_400_000}d")), 0),
    budget=BudgetSettings(false_alarms=5.0, period="1h"),
)

EDGES = (0.0, 1.0, -0.0, 5e-324, 1e-308, 1 - 2**-53, 0.5, 2**-60, 1e-12)
SCORE = st.sampled_from(EDGES) | st.floats(0, 1)
SCORES = st.dictionaries(st.sampled_from(METRICS), SCORE, max_size=4)
FEW = st.sampled_from(["a", "*", "{0}"])
JUDGED = st.builds(
    JudgedScores,
    labeler=st.just("judge"),
    labeler_version=st.just("1"),
    profile=st.just("ragbench"),
    scores=SCORES,
    inclusion_probability=PROBABILITY,
    uniform=st.booleans(),
)

BESIDE = st.builds(
    EvaluatorScores,
    labeler=st.sampled_from(["local", "judge"]),
    labeler_version=st.just("1"),
    profile=st.just("ragbench"),
    scores=SCORES,
    judged=st.none() | JUDGED,
    inclusion_probability=PROBABILITY,
    declared=st.none()
    | st.fixed_dictionaries(
        {"own.metric": st.sampled_from([{"lower": -1.0, "upper": 1.0}, {"lower": 0.0, "upper": 1.0}])}
    ),
)

DECLARED = (
    {"lower": -1e15, "upper": 1e15, "edges": [-1.0, 0.0, 0.5]},
    {"lower": 0.0, "upper": 1e-12},
    {"lower": -1e-12, "upper": 1.0, "direction": "lower", "kind": "distributive", "version": "2"},
    {"lower": 0.0, "upper": 1.0, "edges": [5e-324, 1e-308]},
)
"""Declarations of a metric that is not ragtide's own, with ranges as wide and as narrow as may be."""


def _changed(event: MetricEvent, changes: dict[str, Any]) -> MetricEvent:
    return MetricEvent.model_validate({**event.model_dump(), **changes})


CLOSE = st.builds(
    _changed,
    EVENT,
    st.fixed_dictionaries(
        {
            "interaction_id": FEW,
            "pipeline": FEW,
            "run": st.none() | FEW,
            "labeler": st.just("local"),
            "labeler_version": st.just("1"),
            "profile": st.just("ragbench"),
            "segments": st.dictionaries(FEW, FEW, max_size=2),
            "scores": SCORES,
            "gold_scores": SCORES,
            "judged": st.none() | JUDGED,
            "beside": st.none() | st.lists(BESIDE, max_size=2),
            "declared": st.none() | st.fixed_dictionaries({"own.metric": st.sampled_from(DECLARED)}),
            "latency_s": st.sampled_from([0.0, 5e-324, 1e-300, 0.1, LATENCY_MAX_S]),
            "cost_usd": st.sampled_from([0.0, 5e-324, 1e-300, COST_MAX_USD]),
        }
    ),
)
"""Events that meet in a few keys."""


def looked_at(state: AggregatorState, strategy: str) -> None:
    """Look at a state in every way, and read it from its fields."""
    changes = state.take_changes()
    for estimate in estimates(state, strategy=strategy):
        estimate.encode()
    for alert in changes.alerts:
        alert.encode()
    again = AggregatorState.from_fields(OPTIONS, changes.rows)
    assert estimates(again) == estimates(state)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(CLOSE | EVENT, st.none() | st.integers(0, 2**64 - 1), SCORES), max_size=12),
    st.sampled_from(sorted(STRATEGIES)),
)
def test_a_state_takes_any_valid_event_and_any_gold_scores(
    entries: list[tuple[MetricEvent, int | None, Any]], strategy: str
) -> None:
    state = AggregatorState(OPTIONS)
    for event, processed_ms, gold in entries:
        try:
            state.apply(event, processed_ms)
            state.apply_gold(event, gold)
        except InvalidEntryError as error:
            assert error.reason is Reason.INVALID  # noqa: PT017 - a score outside its range is refused in words
            assert "range" in error.detail  # noqa: PT017
    looked_at(state, strategy)


@settings(max_examples=15, deadline=None)
@given(st.lists(CLOSE | EVENT, max_size=12), st.integers(0, 12), st.booleans())
def test_columns_of_any_valid_events_leave_the_same_state(events: list[MetricEvent], cut: int, processed: bool) -> None:
    one_by_one, columns = AggregatorState(OPTIONS), AggregatorState(OPTIONS)
    times = [2**62] * len(events) if processed else [to_milliseconds(one.labeled_at) for one in events]
    for event in events:
        try:
            one_by_one.apply(event, 2**62 if processed else None)
        except InvalidEntryError:
            continue
    for part in (slice(None, cut), slice(cut, None)):
        if events[part]:
            columns.apply_columns(columns_of(events[part], times[part]))
    found, expected = columns.take_changes(), one_by_one.take_changes()
    assert (found.rows, found.alerts) == (expected.rows, expected.alerts)


@settings(max_examples=15, deadline=None)
@given(CLOSE | EVENT, FEEDBACK)
def test_any_feedback_is_judged(event: MetricEvent, feedback: Feedback) -> None:
    verdict = judge_feedback(feedback, event, ())
    assert set(verdict.accepted) | set(verdict.rejected) == set(feedback.gold_scores)


def drawn(chance: random.Random, number: int) -> MetricEvent | Feedback:
    """Return a valid entry with extremes in every field."""
    names = ("a", "*", "a|b", "{0}", "..", "é" * 200, "😀", " x ", "null", "%00")
    times = (
        TIME_MIN,
        TIME_MAX,
        "1970-01-01T00:00:00.000001Z",
        "2199-12-31T23:59:59.999999Z",
        "2026-11-21T21:00:00+05:45",
    )

    def scores() -> dict[str, float]:
        found = chance.sample(METRICS, chance.randint(1, 4))
        return {name: chance.choice(EDGES) * (0.5 if "rmse" in name else 1) for name in found}

    if chance.random() < 0.3:
        return Feedback.from_fields(
            {
                "pipeline": chance.choice(names[:3]),
                "interaction_id": f"i-{chance.randint(0, number + 1)}",
                "gold_scores": scores(),
                "given_at": chance.choice(times),
            }
        )
    fields: dict[str, Any] = {
        "interaction_id": f"i-{number}",
        "pipeline": chance.choice(names[:3]),
        "occurred_at": chance.choice(times),
        "labeled_at": chance.choice(times),
        "segments": {chance.choice(names): chance.choice(names) for _ in range(chance.randint(0, 2))},
        "labeler": chance.choice(names[:2]),
        "labeler_version": "1",
        "profile": "ragbench",
        "scores": scores(),
        "gold_scores": scores(),
        "absent": {"own.absent": chance.choice(names)} if chance.random() < 0.3 else {},
        "latency_s": chance.choice([0, 5e-324, 1e-300, LATENCY_MAX_S]),
        "cost_usd": chance.choice([0, 1e-300, COST_MAX_USD]),
        "prompts": ("p",),
        "counters": {"x": chance.choice([0, COUNTER_MAX])},
        "inclusion_probability": chance.choice([1.0, PROBABILITY_MIN]),
    }
    if chance.random() < 0.3:
        fields |= {"run": "r", "population_size": chance.choice([1, COUNTER_MAX])}
    if chance.random() < 0.3:
        judged = {"labeler": "judge", "labeler_version": "1", "profile": "ragbench", "scores": scores()}
        probability = chance.choice([1.0, PROBABILITY_MIN, 1e-5])
        asked = {metric: chance.choice([1.0, PROBABILITY_MIN]) for metric in METRICS[:2]}
        fields["judged"] = {**judged, "inclusion_probability": probability, "uniform": chance.random() < 0.5}
        fields["judged"] |= {"inclusion": asked} if chance.random() < 0.3 else {}
    if chance.random() < 0.3:
        scored = {"labeler": "other", "labeler_version": "1", "profile": "ragbench", "scores": scores()}
        fields["beside"] = [{**scored, "inclusion_probability": chance.choice([1.0, PROBABILITY_MIN, 0.1])}]
    return MetricEvent.from_fields(fields)


IDS = ("0-{}", "1795219200000-{}", f"{2**64 - 1}-{{}}")
"""Ids of entries: of no time, as Redis gives them, beyond any time."""


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_an_aggregator_outlives_any_valid_entries_and_counts_them_all(async_redis: Any, seed: int) -> None:
    chance = random.Random(seed)
    entry_id = IDS[seed % len(IDS)]
    async with running(async_redis) as task:
        for number in range(120):
            entry = drawn(chance, number)
            if isinstance(entry, Feedback):
                await async_redis.xadd(STREAMS.feedback, {DATA_FIELD: entry.encode()})
                continue
            at = await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: entry.encode()}, id=entry_id.format(number + 1))
            await async_redis.set(STREAMS.scored(interaction_digest(entry.pipeline, entry.interaction_id)), at)
        await until(lambda: caught_up(async_redis, task))
        assert not task.done()
    assert Reason.NOT_AGGREGATABLE not in {letter.reason for letter in await letters(async_redis)}
    assert not [letter for letter in await letters(async_redis) if letter.stream == STREAMS.metrics]
    state = (await load_checkpoint(async_redis, STREAMS, OPTIONS)).state
    assert estimates(state)


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def plain_event(**changes: Any) -> MetricEvent:
    fields = {"interaction_id": "a", "pipeline": "shop", "labeler": "local", "labeler_version": "1", "scores": {}}
    times = {"occurred_at": NOON, "labeled_at": NOON, "profile": "ragbench"}
    return MetricEvent.model_validate({**fields, **times, **changes})


def test_later_gold_scores_of_a_metric_without_a_score_move_no_window_of_a_restarted_state() -> None:
    """The clocks of the producer and of the worker are ahead of that of the server."""
    times = {"occurred_at": NOON + timedelta(seconds=20), "labeled_at": NOON + timedelta(seconds=10)}
    event = plain_event(**times, absent={"own.metric": "no answer"})
    state = AggregatorState(OPTIONS)
    state.apply(event, to_milliseconds(NOON))
    state.apply_gold(event, {"own.metric": 0.38})
    again = AggregatorState.from_fields(OPTIONS, state.take_changes().rows)
    windows = {estimate.metric: estimate.n for estimate in estimates(state) if estimate.window == "1s"}
    assert windows["labeling.latency_s"] == 1
    assert estimates(again) == estimates(state)


def test_the_last_of_two_declarations_counts_however_the_events_are_cut_into_batches() -> None:
    def declared(*edges: float) -> dict[str, MetricDeclaration]:
        return {"own.metric": MetricDeclaration(lower=0, upper=1, edges=edges)}

    evaluator = EvaluatorScores(
        labeler="judge", labeler_version="1", profile="ragbench", scores={}, declared=declared(0.2)
    )
    events = [plain_event(beside=[evaluator]), plain_event(interaction_id="b", declared=declared(0.5))]
    times = [to_milliseconds(NOON)] * 2
    rows = []
    for cut in (0, 1):
        state = AggregatorState(OPTIONS)
        for part in (slice(None, cut), slice(cut, None)):
            if events[part]:
                state.apply_columns(columns_of(events[part], times[part]))
        rows.append(state.take_changes().rows)
    assert rows[0] == rows[1]
    assert any(b"0.5" in data for name, data in rows[0].items() if name.startswith("declared:"))
