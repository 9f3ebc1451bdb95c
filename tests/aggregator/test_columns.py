"""Events in columns are the same events: the state is the same to the bit, however they are cut."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.support.event_columns import columns_of
from tests.support.metric_events import START, event

from ragtide import Alert, AlertRule, InvalidEntryError
from ragtide_aggregator.events.columns import EventColumns, RejectedEvent
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.settings.alerting import BudgetSettings
from ragtide_schemas import JudgedScores, MetricEvent

MINUTE = 60_000
ADHERENCE, RELEVANCE, BALANCE = "trace.adherence", "trace.context_relevance", "trace.rmse_aggregation"
RULES = (
    AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.7),
    AlertRule(name="drift", kind="drift", metric=ADHERENCE, learn_n=20),
    AlertRule(name="quick", kind="drift", metric=RELEVANCE, baseline=0.6, direction="both", run_length=20),
    AlertRule(name="lang", kind="drift", metric=ADHERENCE, baseline=0.8, segment="lang", run_length=30),
    AlertRule(name="window", kind="drift", metric=RELEVANCE, baseline_window="5m", learn_n=20, run_length=50),
    AlertRule(name="error", kind="rmse", metric=ADHERENCE, target=0.2, run_length=20),
    AlertRule(
        name="people", kind="agreement", statistic="kappa", metric=ADHERENCE, target=0.4, run_length=10, segment="lang"
    ),
    AlertRule(name="shape", kind="distribution", metric=BALANCE, baseline=0.1, baseline_spread=0.05, run_length=40),
)
OPTIONS = StateOptions(
    rules=RULES,
    panes=Panes((window("1m"), window("4m/1m")), 30_000),
    budget=BudgetSettings(false_alarms=40.0, period="10m"),
)

Refusals = list[tuple[str, str]]
"""Id of the interaction, and why."""
Add = Callable[[AggregatorState], Refusals]
Outcome = tuple[dict[str, bytes], list[bytes], list[str], Refusals]


def outcome(options: StateOptions, add: Add) -> Outcome:
    """Return all fields of a checkpoint, the alerts, what is gone, and what was refused and why."""
    state = AggregatorState(options)
    refused = add(state)
    changes = state.take_changes()
    return dict(changes.rows), [alert.encode() for alert in changes.alerts], sorted(changes.gone), refused


def one_by_one(events: Sequence[MetricEvent]) -> Add:
    def add(state: AggregatorState) -> Refusals:
        refused = []
        for one in events:
            try:
                state.apply(one)
            except InvalidEntryError as error:
                refused.append((one.interaction_id, str(error)))
        return refused

    return add


def in_columns(events: Sequence[MetricEvent], cuts: Sequence[int]) -> Add:
    def add(state: AggregatorState) -> Refusals:
        refused = []
        edges = sorted({0, *(cut % (len(events) + 1) for cut in cuts), len(events)})
        for start, stop in pairwise(edges):
            part = events[start:stop]
            refused += [
                (part[column.place].interaction_id, str(column.error))
                for column in state.apply_columns(columns_of(part))
            ]
        return refused

    return add


def drawn(
    seed: int,
    n: int,
    *,
    judged: float,
    absent: float,
    disorder_s: float,
    wrong: float,
    second: float = 1.0,
    sampled: float = 0.0,
) -> list[MetricEvent]:
    """Return random events of some pipelines, runs, labelers and segments, with a fall on the way."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(n):
        tags = rng.permutation(["lang", "tier"])[: rng.integers(3)].tolist()
        falls = n // 3 < number < 2 * n // 3
        scores = {
            ADHERENCE: float(rng.random() < (0.2 if falls else 0.9)),
            RELEVANCE: float(np.round(rng.beta(1 if falls else 6, 3), int(rng.integers(1, 17)))),
            BALANCE: float(rng.random() / (2 if falls else 5)),
            "mine.other": float(rng.random()),
        }
        names = [name for name in rng.permutation(list(scores)).tolist() if rng.random() >= absent]
        scores = {name: scores[name] for name in names}
        if rng.random() < wrong:
            scores[BALANCE] = 0.75
        gold = {ADHERENCE: float(rng.random() < 0.8), RELEVANCE: float(rng.random())} if rng.random() < 0.3 else {}
        if rng.random() < wrong:
            gold[RELEVANCE] = 1.5
        occurred = START + timedelta(seconds=number * second - rng.random() * disorder_s, microseconds=number)
        labeled = occurred + timedelta(seconds=float(rng.normal(1, 1)))
        changes: dict[str, Any] = {
            "pipeline": str(rng.choice(["shop", "help"])),
            "run": None if rng.random() < 0.8 else "nightly",
            "population_size": None if rng.random() < 0.5 else int(rng.integers(500, 503)),
            "labeler_version": str(rng.choice(["1", "2"], p=[0.95, 0.05])),
            "segments": {name: str(rng.choice(["a", "b"])) for name in tags},
            "absent": dict.fromkeys({ADHERENCE, BALANCE} - set(scores), "no claims"),
            "gold_scores": gold,
            "latency_s": float(rng.lognormal()),
            "cost_usd": float(rng.random() / 100),
            "prompts": ("p",) if rng.random() < 0.2 else (),
            "occurred_at": occurred,
            "labeled_at": labeled,
        }
        if sampled and rng.random() < sampled:
            changes["sampling_probability"] = float(rng.choice([0.1, 0.25, 1e-6]))
        if rng.random() < judged:
            truth = 2.0 if rng.random() < wrong else float(rng.random() < 0.7)
            changes["judged"] = JudgedScores(
                labeler="judge", labeler_version="1", profile="ragbench",
                scores={RELEVANCE: float(rng.random()), ADHERENCE: truth},
                inclusion_probability=0.25, uniform=bool(rng.random() < 0.5),
            )  # fmt: skip
        found.append(event(number, scores, **changes))
    return found


def test_many_events_fire_and_resolve_the_same_alerts_to_the_bit() -> None:
    events = drawn(7, 3_000, judged=0.02, absent=0.05, disorder_s=30.0, wrong=0.002)
    rows, alerts, _, refused = expected = outcome(OPTIONS, one_by_one(events))
    assert outcome(OPTIONS, in_columns(events, [1_250, 1_251])) == expected
    decoded = [Alert.model_validate_json(alert) for alert in alerts]
    assert {alert.rule for alert in decoded} == {rule.name for rule in RULES}
    assert {alert.status for alert in decoded} == {"firing", "explained", "resolved"}
    assert any(alert.worst_interaction_ids for alert in decoded)
    assert any(name.startswith("pair:") for name in rows)
    assert refused


def test_events_that_are_applied_each_by_itself_leave_the_same_state() -> None:
    events = drawn(11, 80, judged=0.1, absent=0.2, disorder_s=30.0, wrong=0.05)

    def each(state: AggregatorState) -> Refusals:
        refused = []
        for one in events:
            refused += one_by_one([one])(state)
            assert state.moments is not None  # a look: the queue is applied
        return refused

    assert outcome(OPTIONS, each) == outcome(OPTIONS, one_by_one(events)) == outcome(OPTIONS, in_columns(events, []))


def test_the_number_of_changed_keys_is_exact_when_it_matters() -> None:
    state = AggregatorState(StateOptions(segments=False))
    for number in range(100):
        state.apply(event(number, {ADHERENCE: 1.0, RELEVANCE: 0.5}))
        assert not state.has_changed(4)
    assert state.has_changed(3)  # two metrics, and the time that labeling took
    state.take_changes()
    assert not state.has_changed(1)


def test_more_events_of_known_keys_wait_in_a_step_that_is_almost_full(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = []
    apply_columns = AggregatorState.apply_columns

    def counted(state: AggregatorState, columns: EventColumns) -> list[RejectedEvent]:
        applied.append(len(columns))
        return apply_columns(state, columns)

    monkeypatch.setattr(AggregatorState, "apply_columns", counted)
    state = AggregatorState(StateOptions(segments=False))
    for number in range(200):
        state.apply(event(number, {ADHERENCE: 1.0, RELEVANCE: 0.5}))
        assert not state.has_changed(4)
    assert len(applied) <= 2


def test_the_order_of_scores_within_an_event_means_nothing() -> None:
    events = drawn(5, 600, judged=0.05, absent=0.0, disorder_s=0.0, wrong=0.0)
    turned = [one.model_copy(update={"scores": dict(reversed(one.scores.items()))}) for one in events]
    assert outcome(OPTIONS, one_by_one(turned)) == outcome(OPTIONS, one_by_one(events))


def test_the_time_of_scoring_may_be_given() -> None:
    events = drawn(6, 300, judged=0.05, absent=0.1, disorder_s=60.0, wrong=0.0)
    given_ms = np.array([int(one.occurred_at.timestamp()) * 1000 + 500 for one in events])
    whole, columnar = AggregatorState(OPTIONS), AggregatorState(OPTIONS)
    for one, time_ms in zip(events, given_ms.tolist(), strict=True):
        whole.apply(one, time_ms)
    assert columnar.apply_columns(columns_of(events, given_ms.tolist())) == []
    found, expected = columnar.take_changes(), whole.take_changes()
    assert (found.rows, found.alerts) == (expected.rows, expected.alerts)
