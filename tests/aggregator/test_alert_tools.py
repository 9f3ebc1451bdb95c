"""Alerts on runs of agents: a rule on every tool, and which tool moved by itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.support.event_columns import columns_of
from tests.support.metric_events import event

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts.cause_search import LOOKS
from ragtide_aggregator.state.capping import TOOLS_KEPT
from ragtide_aggregator.state.options import OTHER, KeyCaps
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.settings.alerting import DEFAULT_RULES
from ragtide_schemas import MetricEvent
from ragtide_schemas.alert_text import alert_text
from ragtide_schemas.step_metrics import ToolMetric, ToolQuantity, tool_declaration

EVERY_TOOL = AlertRule(name="failing", kind="drift", metric="tool.*.failed", baseline="earlier", severity="info")
QUALITY = AlertRule(name="relevance", kind="drift", metric="trace.context_relevance", baseline=0.6, run_length=1_000)
PANES = Panes((window("5m"),), 1_200_000)
OPTIONS = StateOptions(rules=(EVERY_TOOL,), panes=PANES)
OF_QUALITY = StateOptions(rules=(QUALITY,), panes=PANES)
TOOLS = ("search", "orders", "web")
Changes = Mapping[str, float]
SEARCH_WORSE: Changes = {"search": 0.25, "quality": 0.45}
SEARCH_FAILS: Changes = {"search.failed": 0.5}
OTHERS_CALLED: Changes = {"search.called": 0.3, "quality": 0.45}


def runs(parts: Sequence[tuple[int, Changes]], seed: int = 2, **fields: Any) -> list[MetricEvent]:
    """Return the events of runs that begin with one or two tools, in parts with changes of means."""
    rng = np.random.default_rng(seed)
    events: list[MetricEvent] = []
    for n, changes in parts:
        for _ in range(n):
            called = [tool for tool in TOOLS if rng.random() < changes.get(f"{tool}.called", 0.5)] or ["web"]
            scores = {"agent.calls": 1.0, "agent.wasted": 0.0}
            scores["trace.context_relevance"] = _beta(changes.get("quality", 0.6), rng)
            for tool in called:
                scores[f"tool.{tool}.failed"] = float(rng.random() < changes.get(f"{tool}.failed", 0.05))
                scores[f"tool.{tool}.yield"] = _beta(changes.get(tool, 0.5), rng)
            if any(rng.random() < changes.get(f"{tool}.unlabeled", 0.0) for tool in called):
                scores = {name: score for name, score in scores.items() if name.endswith((".calls", ".failed"))}
            events.append(event(len(events), scores, declared=declared(scores), **fields))
    return events


def _beta(mean: float, rng: np.random.Generator) -> float:
    return float(rng.beta(6 * mean, 6 - 6 * mean))


def declared(names: Mapping[str, float]) -> dict[str, Any]:
    """Return the declarations of the metrics of tools among some."""
    return {name: tool_declaration(tool) for name in names if (tool := ToolMetric.read(name)) is not None}


def alerts_of(events: Sequence[MetricEvent], options: StateOptions = OPTIONS) -> list[Alert]:
    state = AggregatorState(options)
    state.apply_columns(columns_of(events))
    return list(state.take_changes().alerts)


def test_a_rule_on_every_tool_fires_for_the_tool_whose_calls_fail_and_names_it() -> None:
    fired, explained = alerts_of(runs([(1_000, {}), (2_000, SEARCH_FAILS)]))
    assert (fired.rule, fired.metric, fired.severity, fired.direction) == (
        "failing", "tool.search.failed", "info", "rise",
    )  # fmt: skip
    assert "Share of the calls of search that failed" in fired.message
    cause = explained.moved_step
    assert cause is not None
    assert [(step.step, step.kind) for step in cause.moved] == [("search", "tool")]
    assert cause.changes[0].metric == "tool.search.failed"


def test_a_fallen_yield_of_one_tool_explains_the_alert_of_the_answers() -> None:
    fired, explained = alerts_of(runs([(3_000, {}), (3_400, SEARCH_WORSE)]), OF_QUALITY)
    assert fired.step_sought
    cause = explained.moved_step
    assert cause is not None
    assert ([step.step for step in cause.moved], cause.verdict, cause.called) == (["search"], "moved", None)
    assert cause.n_since in LOOKS
    own = cause.changes[0]
    assert own.metric == "tool.search.yield"
    assert own.upper < 0
    assert "search" in alert_text(explained).step[0]
    assert b"called" not in explained.model_copy(update={"message": ""}).encode()


def test_other_tools_that_runs_begin_with_are_in_the_alert_and_no_tool_is_named() -> None:
    _, explained = alerts_of(runs([(3_000, {}), (3_400, OTHERS_CALLED)]), OF_QUALITY)
    cause = explained.moved_step
    assert cause is not None
    assert (cause.moved, cause.possible) == ((), ())
    assert cause.called is not None
    assert (cause.called[0].step, cause.called[0].metric) == ("search", "tool.search.called")
    assert cause.called[0].since < 0.4 < cause.called[0].before
    assert any("search" in sentence for sentence in alert_text(explained).step[:2])
    assert Alert.decode(explained.encode()) == explained


def test_a_tool_whose_results_a_labeler_cannot_read_is_named_and_not_said_to_be_called_less() -> None:
    unread = {**SEARCH_WORSE, "search.unlabeled": 0.6}
    _, explained = alerts_of(runs([(3_000, {}), (8_000, unread)]), OF_QUALITY)
    cause = explained.moved_step
    assert cause is not None
    assert ([step.step for step in cause.moved], cause.unmoved, cause.called) == (["search"], (), None)


def test_a_restart_during_the_search_for_a_tool_changes_nothing() -> None:
    events = runs([(1_500, {}), (3_400, SEARCH_WORSE)])
    whole = alerts_of(events, OF_QUALITY)
    for split in (1_600, 1_900, 2_300):
        first = AggregatorState(OF_QUALITY)
        first.apply_columns(columns_of(events[:split]))
        saved = first.take_changes()
        second = AggregatorState.from_fields(OF_QUALITY, saved.rows)
        second.apply_columns(columns_of(events[split:]))
        assert [*saved.alerts, *second.take_changes().alerts] == whole


def test_the_default_rules_on_runs_and_tools_are_of_severity_info_and_quiet_without_a_change() -> None:
    rules = tuple(rule for rule in DEFAULT_RULES if rule.metric.startswith(("agent.", "tool.")))
    assert {rule.metric for rule in rules} == {
        "agent.wasted", "agent.rounds", "agent.gave_up", "tool.*.failed", "tool.*.empty", "tool.*.used",
    }  # fmt: skip
    assert {rule.severity for rule in rules} == {"info"}
    options = StateOptions(rules=rules, panes=PANES)
    assert alerts_of(runs([(1_500, {})]), options) == []
    assert {alert.rule for alert in alerts_of(runs([(1_000, {}), (500, SEARCH_FAILS)]), options)} == {"tools-failed"}


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"metric": "tool.*.fails"}, "failed"), ({"metric": "tool.search.fails"}, "failed"),
        ({"metric": "tool.*.calls"}, "direction"), ({"metric": "trace.*.failed"}, "metric"),
        ({"metric": "tool.*.failed", "kind": "distribution"}, "kind"),
        ({"metric": "tool.*.failed", "segment": "lang"}, "segment"),
        ({"metric": "tool.*.failed", "adjust": "lang", "baseline": None}, "adjust"),
    ],
)  # fmt: skip
def test_a_rule_that_could_not_watch_every_tool_is_refused(fields: dict[str, Any], cause: str) -> None:
    with pytest.raises(ValidationError, match=cause):
        AlertRule(**{"name": "tools", "kind": "drift", "baseline": "earlier", **fields})


def test_invented_names_of_tools_count_as_one_tool_and_their_alert_outlives_a_restart() -> None:
    options = StateOptions(caps=KeyCaps(pipeline=50_000, partition=100_000), quantiles=False)
    quantities: tuple[ToolQuantity, ...] = ("calls", "failed")
    events = []
    for number in range(TOOLS_KEPT + 30):
        scores = {ToolMetric(f"t{number}", quantity).name: 1.0 for quantity in quantities}
        events.append(event(number, scores, declared=declared(scores), absent={f"tool.t{number}.used": "no_evidence"}))
    state = AggregatorState(options)
    for each in events[:80]:
        state.apply(each)
    fields = dict(state.take_changes().rows)
    state = AggregatorState.from_fields(options, fields)
    for each in events[80:]:
        state.apply(each)
    n = {
        tool.tool: state.moments.n(row)
        for row, key in enumerate(state.keys)
        if (tool := ToolMetric.read(key.metric)) is not None and tool.quantity == "failed"
    }
    assert n == {**{f"t{number}": 1 for number in range(TOOLS_KEPT)}, OTHER: 30}
    fields |= state.take_changes().rows
    (alert,) = AggregatorState.from_fields(options, fields).firing()
    assert (alert.rule, alert.kind, alert.pipeline) == ("keys-cap", "capped", events[0].pipeline)
    assert str(TOOLS_KEPT) in alert.message
