"""An alert says which steps moved by themselves, with intervals, or that it is not resolved."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tests.support.event_columns import columns_of
from tests.support.metric_events import event

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts.cause_search import LOOKS
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_schemas import MetricEvent
from ragtide_schemas.alert_text import alert_text
from ragtide_schemas.step_metrics import ComponentKind, StepMetric, step_declaration

QUALITY = "trace.context_relevance"
RULE = AlertRule(name="relevance", kind="drift", metric=QUALITY, baseline=0.6, run_length=1_000)
OPTIONS = StateOptions(rules=(RULE,), panes=Panes((window("5m"),), 1_200_000))
KINDS: Mapping[str, ComponentKind] = {
    "bm25": "retriever", "dense": "retriever", "rerank": "reranker", "generator": "generator",
}  # fmt: skip
NORMAL = {
    "quality": 0.6, "adherence": 0.9,
    **{f"{name}.{quantity}": mean for name in ("bm25", "dense") for quantity, mean in (
        ("relevance", 0.5), ("used_recall", 0.6), ("agreement", 0.4), ("order", 0.7), ("yield", 0.4),
    )},
    "rerank.relevance": 0.6, "rerank.agreement": 0.5, "rerank.ranking": 0.8, "generator.focus": 0.7,
}  # fmt: skip
DECLARED = {
    f"retrieval.step.{name}": step_declaration(metric, KINDS[metric.step])
    for name in NORMAL
    if (metric := StepMetric.read(f"retrieval.step.{name}")) is not None
}
BM25_WORSE = {
    "quality": 0.4, "bm25.used_recall": 0.3, "bm25.agreement": 0.2, "dense.agreement": 0.2, "bm25.yield": 0.2,
}  # fmt: skip
RERANK_WORSE = {
    "quality": 0.4, "rerank.relevance": 0.4, "rerank.agreement": 0.3, "rerank.ranking": 0.5, "bm25.order": 0.5,
    "dense.order": 0.5, "bm25.yield": 0.2, "dense.yield": 0.2,
}  # fmt: skip
GENERATOR_WORSE = {"quality": 0.4, "generator.focus": 0.4}
QUALITY_WORSE = {"quality": 0.4}
BOTH_WORSE = {**BM25_WORSE, **RERANK_WORSE}


def traffic(parts: Sequence[tuple[int, Mapping[str, float]]], seed: int = 2, **fields: Any) -> list[MetricEvent]:
    rng = np.random.default_rng(seed)
    found: list[MetricEvent] = []
    for n, changes in parts:
        for _ in range(n):
            drawn = {name: float(rng.beta(6 * mean, 6 - 6 * mean)) for name, mean in {**NORMAL, **changes}.items()}
            scores = {f"retrieval.step.{name}": value for name, value in drawn.items() if "." in name}
            scores[QUALITY], scores["trace.adherence"] = drawn["quality"], drawn["adherence"]
            found.append(event(len(found), scores, declared=DECLARED, **fields))
    return found


def in_languages(events: Sequence[MetricEvent]) -> list[MetricEvent]:
    return [
        scored.model_copy(update={"segments": {"lang": "de" if place % 3 else "en"}})
        for place, scored in enumerate(events)
    ]


def alerts_of(events: Sequence[MetricEvent], options: StateOptions = OPTIONS) -> list[Alert]:
    state = AggregatorState(options)
    state.apply_columns(columns_of(events))
    return list(state.take_changes().alerts)


@pytest.mark.parametrize(
    ("worse", "steps"),
    [
        (BM25_WORSE, ["bm25"]), (RERANK_WORSE, ["rerank"]), (GENERATOR_WORSE, ["generator"]),
        ({**BM25_WORSE, **GENERATOR_WORSE}, ["bm25", "generator"]),
    ],
)  # fmt: skip
def test_the_alert_comes_once_more_with_the_steps_that_moved(worse: Mapping[str, float], steps: list[str]) -> None:
    fired, explained = alerts_of(traffic([(1_500, {}), (3_400, worse)]))
    assert (fired.status, fired.step_sought, fired.cause_sought, fired.moved_step) == ("firing", True, False, None)
    assert "Which step moved: not known yet" in fired.message
    assert (explained.status, explained.step_sought, explained.cause) == ("explained", False, None)
    found = explained.moved_step
    assert found is not None
    assert (found.verdict, [(step.step, step.kind) for step in found.moved]) == (
        "moved", [(step, KINDS[step]) for step in steps],
    )  # fmt: skip
    assert ({step.step for step in found.unmoved}, found.possible) == (KINDS.keys() - set(steps), ())
    assert found.n_since in LOOKS
    sentences = " ".join(alert_text(explained).step)
    assert all(sentence in explained.message for sentence in alert_text(explained).step)
    for step, own in zip(steps, found.changes, strict=False):
        assert own.metric.startswith(f"retrieval.step.{step}.")
        assert own.lower < own.since - own.before < own.upper < 0
        assert step in sentences
        assert f"change {own.lower:+.3f} to {own.upper:+.3f}" in sentences


def test_two_steps_that_cannot_be_told_apart_are_not_resolved_and_the_alert_says_which_they_may_be() -> None:
    fired, explained = alerts_of(traffic([(1_500, {}), (4_000, BOTH_WORSE)]))
    assert fired.step_sought
    found = explained.moved_step
    assert found is not None
    assert (found.verdict, found.moved, found.n_since) == ("unresolved", (), LOOKS[-1])
    assert {step.step for step in found.possible} == {"bm25", "dense", "rerank"}
    assert [step.step for step in found.unmoved] == ["generator"]
    named, same, _ = alert_text(explained).step
    assert all(step in named for step in ("bm25", "dense", "rerank"))
    assert "the generator" in same


def test_a_change_that_no_step_has_made_excludes_all() -> None:
    _, explained = alerts_of(traffic([(1_500, {}), (4_000, QUALITY_WORSE)]))
    found = explained.moved_step
    assert found is not None
    assert (found.verdict, found.moved, found.possible, found.changes) == ("unresolved", (), (), ())
    assert {step.step for step in found.unmoved} == KINDS.keys()


@pytest.mark.parametrize("later", [100, 400, 1_000])
def test_the_first_of_two_steps_that_move_is_never_said_to_be_all(later: int) -> None:
    events = traffic([(1_500, {}), (later, RERANK_WORSE), (4_000, BOTH_WORSE)])
    found = alerts_of(events)[1].moved_step
    assert found is not None
    if found.n_since > later:
        assert found.verdict != "moved"
    assert "bm25" not in {step.step for step in found.moved}


def test_the_traffic_and_the_step_are_told_together_and_once() -> None:
    events = traffic([(1_500, {}), (4_000, BM25_WORSE)])
    fired, explained = alerts_of(in_languages(events))
    assert (fired.cause_sought, fired.step_sought) == (True, True)
    assert explained.cause is not None
    assert explained.cause.verdict == "within"
    assert explained.moved_step is not None
    assert [step.step for step in explained.moved_step.moved] == ["bm25"]


def test_what_is_known_waits_for_the_other_for_two_looks() -> None:
    events = traffic([(1_500, {}), (4_000, BOTH_WORSE)])
    _, explained = alerts_of(in_languages(events))
    assert explained.cause is not None
    assert explained.moved_step is not None
    assert explained.moved_step.verdict == "unresolved"
    assert LOOKS[2] <= explained.moved_step.n_since < LOOKS[-1]


def test_a_restart_during_the_search_changes_nothing() -> None:
    events = traffic([(1_500, {}), (3_400, RERANK_WORSE)])
    whole = alerts_of(events)
    for split in (1_600, 1_900, 2_300):
        first = AggregatorState(OPTIONS)
        first.apply_columns(columns_of(events[:split]))
        saved = first.take_changes()
        second = AggregatorState.from_fields(OPTIONS, saved.rows)
        second.apply_columns(columns_of(events[split:]))
        assert [*saved.alerts, *second.take_changes().alerts] == whole


@pytest.mark.parametrize("change", ["no steps", "a metric that is no quality", "a segment"])
def test_steps_are_searched_for_only_where_they_can_say_something(change: str) -> None:
    events = traffic([(1_500, {}), (1_000, BM25_WORSE)])
    options = OPTIONS
    if change == "no steps":
        events = [
            scored.model_copy(update={"scores": {QUALITY: scored.scores[QUALITY]}, "declared": None})
            for scored in events
        ]
    elif change == "a segment":
        rule = RULE.model_copy(update={"segment": "lang"})
        options = StateOptions(rules=(rule,))
        events = [scored.model_copy(update={"segments": {"lang": "de"}}) for scored in events]
    else:
        rule = RULE.model_copy(update={"metric": "retrieval.match"})
        options = StateOptions(rules=(rule,))
        events = [
            scored.model_copy(update={"scores": {**scored.scores, "retrieval.match": scored.scores[QUALITY]}})
            for scored in events
        ]
    fired, *rest = alerts_of(events, options)
    assert not fired.step_sought
    assert all(alert.moved_step is None for alert in (fired, *rest))


def test_a_resolved_alert_keeps_the_step() -> None:
    better = {"quality": 0.9}
    _, explained, resolved = alerts_of(traffic([(1_500, {}), (900, BM25_WORSE), (600, better)]))
    assert resolved.status == "resolved"
    assert resolved.moved_step == explained.moved_step
