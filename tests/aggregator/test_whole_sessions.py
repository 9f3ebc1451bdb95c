"""Scores of whole sessions in the state: one value of a session, and no interaction of the traffic."""

from typing import Any

import numpy as np
import pytest
from tests.support.metric_events import event

from ragtide import AlertRule
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.events.batch import EventList, cluster_codes, cluster_name
from ragtide_aggregator.events.columns import EventColumns
from ragtide_aggregator.events.keys import COST, LATENCY
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_offline.replay.tables import columns_of
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_runtime.recordings.parquet import table_of
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import MetricEvent

ADHERENCE, RESOLVED = "trace.adherence", "criteria.resolved"
DECLARED = {
    "criteria.resolved": {"version": "1", "lower": 0.0, "upper": 1.0, "direction": "higher", "kind": "algebraic"}
}


def answer(number: int, session: str, value: float = 0.5) -> MetricEvent:
    return event(number, {ADHERENCE: value}, session_id=session, segments={"lang": "de"}, cost_usd=0.1)


def whole(number: int, session: str, value: float, **fields: Any) -> MetricEvent:
    return event(
        number, {RESOLVED: value}, interaction_id=f"session-{number}", session_id=session, unit="session", turn=3,
        declared=DECLARED, cost_usd=0.5, segments={"lang": "de"}, prompts=("session.en.1",), **fields,
    )  # fmt: skip


def traffic(*, with_sessions: bool = True) -> list[MetricEvent]:
    found = []
    for number in range(120):
        found.append(answer(number, f"s{number // 4}", value=(number % 5) / 4))
        if with_sessions and number % 4 == 3:
            found.append(whole(number, f"s{number // 4}", value=float(number % 8 == 3)))
    return found


def recorded(events: list[MetricEvent]) -> EventColumns:
    rows = [RecordedEntry(0, f"{number}-0", found) for number, found in enumerate(events)]
    return columns_of(table_of(EntryKind.METRICS, rows))


def state_of(events: list[MetricEvent], **options: Any) -> AggregatorState:
    clusters = ClusterSettings(quiet_s=30, open_cap=100)
    state = AggregatorState(StateOptions(**{"clusters": clusters, **options}))
    for found in events:
        state.apply(found)
    return state


def overall(state: AggregatorState, metric: str) -> Any:
    (found,) = [
        estimate
        for estimate in estimates(state, strategy="auto", confidence=0.95)
        if (estimate.metric, estimate.window, estimate.segment) == (metric, "all", None)
    ]
    return found


def test_n_counts_sessions_and_answers_are_as_without_them() -> None:
    state, alone = state_of(traffic()), state_of(traffic(with_sessions=False))
    assert (overall(state, RESOLVED).n, overall(state, RESOLVED).estimate) == (30, 0.5)
    assert overall(state, ADHERENCE) == overall(alone, ADHERENCE)


def test_a_session_counts_for_no_interaction() -> None:
    def counts(state: AggregatorState) -> dict[Any, int]:
        return {
            key: int(state.moments.n(row)) + int(state.rows.counts[0, row])
            for row, key in enumerate(state.keys)
            if key.metric in (LATENCY, COST)
        }

    found = counts(state_of(traffic()))
    assert found == counts(state_of(traffic(with_sessions=False)))
    assert found


@pytest.mark.parametrize("by", ["auto", "session_id"])
def test_a_session_is_in_no_cluster_of_its_answers(by: str) -> None:
    assert cluster_name(answer(0, "s"), by) == ("session_id", "s")
    assert cluster_name(whole(0, "s", 1.0), by) is None


def test_sessions_of_one_user_or_batch_are_a_cluster() -> None:
    assert cluster_name(whole(0, "s", 1.0, user_id="u"), "user_id") == ("user_id", "u")
    assert cluster_name(whole(0, "s", 1.0, cluster="c"), "auto") == ("cluster", "c")
    assert cluster_name(whole(0, "s", 1.0), "segment:lang") == ("segment:lang", "de")


def test_the_codes_of_many_events_are_those_of_each() -> None:
    events = [*traffic(), whole(500, "s", 1.0, cluster="c"), whole(501, "s", 1.0, user_id="u")]
    for by in ("auto", "cluster", "session_id", "user_id", "segment:lang", "blocks"):
        each = cluster_codes(cluster_name(found, by) for found in events)
        assert np.array_equal(EventList(events).clusters(by), each)
        assert np.array_equal(recorded(events).source.clusters(by), each)


def test_a_recording_leaves_the_state_that_its_events_leave() -> None:
    events = traffic()
    state = AggregatorState(StateOptions())
    assert state.apply_columns(recorded(events)) == []
    live = AggregatorState(StateOptions())
    for found in events:
        live.apply(found)
    assert state.take_changes().rows == live.take_changes().rows


def test_a_rule_on_a_session_criterion_sees_a_value_of_each_session() -> None:
    rule = AlertRule(name="resolved", kind="threshold", metric=RESOLVED, target=0.7)
    events = [found for n in range(60) for found in (answer(n, f"s{n}"), whole(n, f"s{n}", 0.0))]
    (alert,) = state_of(events, rules=(rule,)).take_changes().alerts
    assert (alert.rule, alert.metric) == ("resolved", RESOLVED)
    assert alert.n is not None
    assert alert.n <= 60


def test_a_rule_on_the_traffic_sees_answers_only() -> None:
    rule = AlertRule(name="lang", kind="distribution", segment="lang", run_length=1000, learn_n=20)

    def rules(state: AggregatorState) -> dict[str, bytes]:
        return {name: data for name, data in state.take_changes().rows.items() if name.startswith("rule_state:")}

    found = rules(state_of(traffic(), rules=(rule,)))
    assert found == rules(state_of(traffic(with_sessions=False), rules=(rule,)))
    assert found
