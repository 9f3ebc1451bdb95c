"""Metrics of calls of tools and of runs: from the labels of the whole run, absent with a reason, and on every event."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.event import METRICS_LEFT_OUT, labeler_id, metric_event
from ragtide_consumers.labelers.protocol import EvaluatorLabeling, LabelerId, Labeling, ReferenceLabeling
from ragtide_consumers.metrics.calls import CallUse, call_uses
from ragtide_consumers.metrics.steps import StepScores, step_scores
from ragtide_consumers.text.keys import document_keys
from ragtide_schemas import METRICS, MetricDeclaration, MetricEvent, SentenceLabels, SentenceProbabilities
from ragtide_schemas.declared import DECLARED_MAX
from ragtide_schemas.metric_definitions import AGENT
from ragtide_schemas.step_metrics import TOOL_QUANTITIES

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DOCUMENTS = ["Order 7 is a lamp. It came in April.", "Lamps can be returned for 14 days.", "Tea is hot."]
KEYS = document_keys([2, 1, 1])
QUANTITIES = ("calls", "used", "relevant", "wasted", "repeated", "failed", "empty", "latency_s", "yield")


def call(name: str, number: int | None = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "kind": "tool", "round": number, **fields}


def run(*calls: dict[str, Any], **fields: Any) -> RagInteraction:
    given = {"pipeline": "shop", "question": "Can I return it?", "documents": DOCUMENTS, "response": "For 14 days."}
    return RagInteraction.from_fields({**given, "steps": list(calls), **fields})


def labels(
    relevant: Sequence[str] | None, used: Sequence[str] | None, support: dict[str, list[str]] | None = None
) -> SentenceLabels:
    return SentenceLabels(
        relevant=relevant, utilized=used, support={"a": ["1a"]} if support is None else support,
        n_document_sentences=4, document_keys=KEYS, response_keys=("a",),
    )  # fmt: skip


def of_tool(scores: StepScores, tool: str) -> dict[str, Any]:
    """Return each number of a tool, or the reason why it has none."""
    both = {**scores.scores, **scores.absent}
    return {quantity: both[f"tool.{tool}.{quantity}"] for quantity in TOOL_QUANTITIES}


RETURN = (
    call("orders", 1, arguments={"order": 7}, documents=[0], returned=1, latency_s=0.12),
    call("search", 1, query="return lamp", error="timeout", latency_s=100),
    call("search", 2, query="returning lamps", documents=[1, 2], returned=8, latency_s=0.4),
    call("book", 3, arguments={"order": 7}, latency_s=0.2),
)


def test_a_run_has_the_numbers_that_follow_by_hand() -> None:
    found = step_scores(run(*RETURN), [labels(["0a", "1a"], ["0a", "1a"])], {})
    assert of_tool(found, "orders") == {
        "calls": 1, "used": 1, "relevant": 1, "wasted": 0, "repeated": 0, "failed": 0, "empty": 0, "latency_s": 0.12,
        "yield": 1 / 2,
    }  # fmt: skip
    assert of_tool(found, "search") == {
        "calls": 2, "used": 1, "relevant": 1, "wasted": 1 / 2, "repeated": 0, "failed": 1 / 2, "empty": 0,
        "latency_s": pytest.approx((60 + 0.4) / 2), "yield": 0,
    }  # fmt: skip
    # A booking is no evidence: it is wasted only if it fails.
    assert of_tool(found, "book") == {
        "calls": 1, "used": "no_evidence", "relevant": "no_evidence", "wasted": 0, "repeated": 0, "failed": 0,
        "empty": "no_evidence", "latency_s": 0.2, "yield": "no_evidence",
    }  # fmt: skip
    of_run = {name.removeprefix("agent."): found.scores[name] for name in found.scores if name.startswith("agent.")}
    assert of_run == {"calls": 4, "rounds": 3, "wasted": 1, "sufficient_at": 2, "gave_up": 0}
    assert {name for name in found.declared if name.startswith("tool.")} == {
        f"tool.{tool}.{quantity}" for tool in ("orders", "search", "book") for quantity in QUANTITIES
    }
    assert not found.declared.keys() & METRICS.keys()
    assert not [name for name in found.declared if name.startswith("retrieval.step.") and "generator" not in name]


def test_of_probabilities_the_surest_sentence_of_a_call_counts() -> None:
    given = SentenceProbabilities(relevant=[0.1, 0.3, 0.9, 0.0], utilized=[0.2, 0.0, 0.6, 0.1], supported=[0.7])
    found = step_scores(run(*RETURN), [given], {})
    orders, search = of_tool(found, "orders"), of_tool(found, "search")
    assert (orders["relevant"], orders["used"], orders["wasted"]) == (0.3, 0.2, 0.7)
    assert orders["yield"] == pytest.approx((0.1 + 0.3) / 2)
    assert (search["relevant"], search["used"]) == (0.9, 0.6)
    assert search["wasted"] == pytest.approx((1 + 0.1) / 2)
    assert found.scores["agent.wasted"] == pytest.approx(0.7 + 1 + 0.1 + 0)
    # Only the sentence 1a counts as used, and it came in the second round.
    assert found.scores["agent.sufficient_at"] == 2


def test_a_tool_that_finds_nothing_stays_in_its_own_means_without_any_label() -> None:
    given = run(call("search", query="a", returned=0), call("search", 2, query="b", returned=0), documents=[])
    found = step_scores(given, [], {"trace.context_relevance": "nothing_retrieved"})
    assert of_tool(found, "search") == {
        "calls": 2, "used": 0, "relevant": 0, "wasted": 1, "repeated": 0, "failed": 0, "empty": 1,
        "latency_s": "latency_unknown", "yield": 0,
    }  # fmt: skip
    assert found.scores["agent.wasted"] == 2


def test_documents_that_the_generator_did_not_get_are_wasted_and_of_unknown_relevance() -> None:
    found = of_tool(step_scores(run(call("search", returned=5, documents=[])), [labels(["0a"], ["0a"])], {}), "search")
    assert (found["used"], found["relevant"], found["wasted"], found["empty"]) == (0, "not_reached", 1, 0)
    assert found["yield"] == "not_reached"


@pytest.mark.parametrize(
    ("calls", "given", "absent", "reasons"),
    [
        ([call("a", documents=[0])], [], {}, {"used": "not_labeled", "wasted": "not_labeled", "yield": "not_labeled"}),
        (
            [call("a", documents=[0])], [], {"trace.context_relevance": "judge_refused"},
            {"relevant": "judge_refused", "used": "not_labeled", "wasted": "judge_refused", "yield": "judge_refused"},
        ),
        (
            [call("a", documents=[0])], [labels(None, ["0a"])], {},
            {"relevant": "incomplete_labels", "used": 1, "wasted": "incomplete_labels", "yield": "incomplete_labels"},
        ),
        ([call("a", error="timeout")], [], {}, {"used": "no_evidence", "wasted": 1, "failed": 1, "yield": 0}),
        ([call("a", None, documents=[0])], [labels([], [])], {}, {"yield": "rounds_unknown", "relevant": 0}),
        ([call("a", 2, documents=[0])], [labels([], [])], {}, {"yield": "not_first_round"}),
        ([call("a", query="x"), call("a")], [], {}, {"repeated": "arguments_unknown", "calls": 2}),
    ],
)  # fmt: skip
def test_what_is_not_known_of_a_tool_is_absent_with_its_reason(
    calls: Any, given: Any, absent: Any, reasons: dict[str, Any]
) -> None:
    found = of_tool(step_scores(run(*calls), given, absent), "a")
    assert {quantity: found[quantity] for quantity in reasons} == reasons


BOTH = labels(["0a", "1a"], ["0a", "1a"])


@pytest.mark.parametrize(
    ("given", "labeled", "absent", "values"),
    [
        (run(call("a", None)), BOTH, {}, {"rounds": "rounds_unknown", "sufficient_at": "rounds_unknown"}),
        (
            run(call("a", documents=[0]), steps_left_out=3), BOTH, {},
            {"calls": 4, "rounds": "calls_cut", "wasted": "calls_cut", "sufficient_at": "calls_cut"},
        ),
        (run(call("a", documents=[0]), steps_left_out=9_936), BOTH, {}, {"calls": 64}),
        (run(call("a", documents=[0])), labels([], []), {}, {"sufficient_at": "no_used_sentences", "wasted": 1}),
        # What the agent had before its calls needs no call.
        (run(call("a", documents=[2])), BOTH, {}, {"sufficient_at": "no_used_sentences"}),
        (run(call("a", documents=[0]), call("b", 2, documents=[2])), BOTH, {}, {"sufficient_at": 1, "wasted": 1}),
        # A document of two calls counts for the earlier round.
        (run(call("a", documents=[0]), call("a", 5, documents=[0, 1])), BOTH, {}, {"sufficient_at": 5}),
        (run(call("a", documents=[0, 1]), call("a", 5, documents=[0, 1])), BOTH, {}, {"sufficient_at": 1, "rounds": 5}),
        (
            run(call("a", documents=[0])), labels(["0a"], ["0a"], {"a": []}), {},
            {"sufficient_at": "never_sufficient"},
        ),
        (run(call("a", documents=[0])), labels(["0a"], ["0a"], {}), {}, {"sufficient_at": "incomplete_labels"}),
        (run(call("a", documents=[0])), BOTH, {"trace.adherence": "refusal"}, {"sufficient_at": "refusal"}),
    ],
)  # fmt: skip
def test_the_numbers_of_a_run_and_their_reasons(
    given: RagInteraction, labeled: SentenceLabels, absent: Any, values: dict[str, Any]
) -> None:
    found = step_scores(given, [labeled], absent)
    both = {**found.scores, **found.absent}
    assert {name: both[f"agent.{name}"] for name in values} == values
    assert {metric.name for metric in AGENT} <= both.keys()


@pytest.mark.parametrize(
    ("response", "gave_up"),
    [
        ("", 1),
        ("<think>It is hard.</think>", 1),
        ("I could not find this in the documents.", 1),
        ("Sorry, need more steps to process this request.", 1),
        ("Agent stopped due to iteration limit or time limit.", 1),
        ("Max turns (10) exceeded", 1),
        ("The agent stopped due to rain.", 0),
        ("For 14 days.", 0),
    ],
)
def test_a_run_gave_up_if_it_ends_without_an_answer(response: str, gave_up: int) -> None:
    assert step_scores(run(call("a"), response=response), [], {}).scores["agent.gave_up"] == gave_up


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"query": "Return  a Lamp"}, {"query": "return a lamp"}, True),
        ({"query": "lamp"}, {"arguments": {"query": "lamp"}}, True),
        ({"query": "lamp"}, {"arguments": {"q": "lamp"}}, False),
        ({"arguments": {"a": 1, "b": None}}, {"arguments": {"a": 1.0}}, True),
        ({"arguments": {"a": "7"}}, {"arguments": {"a": 7}}, True),
        ({"arguments": {"a": '{"x": 1, "y": "B"}'}}, {"arguments": {"a": {"y": "b", "x": 1}}}, True),
        ({"arguments": {"a": 1, "A": {}}}, {"arguments": {"A": {}, "a": 1}}, True),
        ({"arguments": {"a": [1, 2]}}, {"arguments": {"a": [2, 1]}}, False),
        ({"arguments": {"a": True}}, {"arguments": {"a": 1}}, False),
        ({"arguments": {}}, {"arguments": {"a": None}}, True),
        ({"query": "ﬁnd"}, {"query": "find"}, True),
        ({"query": "[" * 1_900}, {"query": "[" * 1_899}, False),
    ],
)
def test_a_call_is_repeated_if_an_earlier_one_of_the_tool_has_its_arguments_in_any_form(
    first: dict[str, Any], second: dict[str, Any], same: bool
) -> None:
    found = step_scores(run(call("a", **first), call("b", **second), call("a", 2, **second)), [], {}).scores
    assert found["tool.a.repeated"] == (0.5 if same else 0)
    assert found["tool.b.repeated"] == 0


CALLS = st.lists(
    st.one_of(
        st.builds(lambda name: call(name, error="timeout"), st.sampled_from("ab")),
        st.builds(call, st.sampled_from("ab")),
        st.builds(lambda name: call(name, returned=0), st.sampled_from("ab")),
        st.builds(
            lambda name, documents: call(name, documents=sorted(documents), returned=5),
            st.sampled_from("ab"),
            st.sets(st.integers(0, 2)),
        ),
    ),
    min_size=1,
    max_size=6,
)
SOME = st.sets(st.sampled_from(KEYS)).map(sorted)


@given(CALLS, SOME, SOME, st.lists(st.integers(1, 3), min_size=6, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_the_calls_of_one_round_changes_nothing_and_every_number_is_in_its_range(
    calls: list[dict[str, Any]], relevant: list[str], used: list[str], rounds: list[int], order: random.Random
) -> None:
    numbered = [{**of, "round": number} for of, number in zip(calls, sorted(rounds), strict=False)]
    given, shuffled = [labels(relevant, used)], sorted(numbered, key=lambda of: (of["round"], order.random()))
    found, again = step_scores(run(*numbered), given, {}), step_scores(run(*shuffled), given, {})
    assert found == again
    for name, value in found.scores.items():
        definition = found.declared.get(name) or METRICS[name]
        assert definition.lower <= value <= definition.upper
    assert not found.scores.keys() & found.absent.keys()


@given(CALLS, SOME, SOME)
def test_a_call_that_failed_or_looked_for_documents_is_either_wasted_or_useful(
    calls: list[dict[str, Any]], relevant: list[str], used: list[str]
) -> None:
    interaction = run(*calls)
    uses = call_uses(interaction, [labels(relevant, used)], {})
    useful = [1.0 in (use.relevant, use.used) for use in uses]
    looked = [of.error is not None or of.looked_for_documents for of in interaction.calls]
    wasted = [use.wasted for use in uses]
    assert wasted == [float(looks and not helps) for looks, helps in zip(looked, useful, strict=True)]
    scores = step_scores(interaction, [labels(relevant, used)], {}).scores
    assert scores["agent.wasted"] == sum(looked) - sum(useful)


@given(CALLS, SOME, st.sampled_from(KEYS))
def test_a_further_used_sentence_never_makes_a_call_less_used_or_more_wasted(
    calls: list[dict[str, Any]], used: list[str], more: str
) -> None:
    assume(more not in used)
    before, after = (call_uses(run(*calls), [labels([], keys)], {}) for keys in (used, [*used, more]))
    for old, new in zip(before, after, strict=True):
        if not isinstance(old.used, str) and not isinstance(new.used, str):
            assert new.used >= old.used
            assert float(new.wasted) <= float(old.wasted)


def test_the_calls_of_a_run_stand_beside_the_retrieval_steps_inside_them() -> None:
    steps = [
        {"name": "bm25", "kind": "retriever", "documents": [0, 1], "returned": 4},
        call("search", query="lamp", documents=[0, 1], returned=2),
    ]
    found = step_scores(run(*steps), [BOTH], {})
    assert {"retrieval.step.bm25.relevance", "tool.search.used", "agent.calls"} <= found.scores.keys()
    assert "retrieval.step.search.relevance" not in {**found.scores, **found.absent}
    alone = step_scores(run(steps[0]), [BOTH], {})
    assert not [name for name in (*alone.scores, *alone.absent) if name.startswith(("tool.", "agent."))]


async def test_every_part_of_an_event_has_the_calls_by_its_own_labels() -> None:
    by, judge = LabelerId("local", "1", "ragbench"), LabelerId("judge", "1", "ragbench")
    own, other = Labeling({}, labels=(labels(["0a"], ["0a"]),)), Labeling({}, labels=(labels(["2a"], ["2a"]),))
    labeling = Labeling(
        {}, labels=own.labels, judged=ReferenceLabeling(other, judge, 0.5, 0.5),
        beside=(EvaluatorLabeling(other, LabelerId("nli", "1", "ragbench"), 1.0),),
    )  # fmt: skip
    event = metric_event(run(*RETURN), by, labeling, labeled_at=NOW, latency_s=0)
    assert MetricEvent.decode(event.encode()) == event
    assert event.judged is not None
    assert event.beside is not None
    parts = (event, event.judged, event.beside[0])
    assert [part.scores["tool.orders.used"] for part in parts] == [1, 0, 0]
    assert [part.scores["agent.wasted"] for part in parts] == [2, 2, 2]
    assert (event.declared or {}).keys() >= {"tool.orders.used", "tool.search.yield"}
    assert not (event.declared or {}).keys() & METRICS.keys()


async def test_the_local_labeler_gives_the_numbers_of_a_run() -> None:
    labeler, given = LocalLabeler(), run(*RETURN)
    labeling = await labeler.label(given)
    event = metric_event(given, labeler_id(labeler), labeling, labeled_at=NOW, latency_s=0.1)
    assert event.scores["tool.search.failed"] == 0.5
    assert 0 < event.scores["tool.search.used"] < 1
    assert 1 < event.scores["agent.wasted"] < 3
    plain = run()
    event = metric_event(plain, labeler_id(labeler), await labeler.label(plain), labeled_at=NOW, latency_s=0.1)
    assert b"agent." not in event.encode()
    assert b"tool." not in event.encode()


def test_of_more_tools_than_an_event_has_room_for_the_same_are_left_out_in_any_order_of_calls() -> None:
    own = {f"mine.m{number:03}": MetricDeclaration(lower=0, upper=1) for number in range(DECLARED_MAX - 20)}
    calls = [call(name, returned=0) for name in "abc"]
    kept = set()
    for order in (calls, calls[::-1]):
        labeling = Labeling(dict.fromkeys(own, 0.5), declared=own)
        event = metric_event(run(*order), LabelerId("l", "1", "p"), labeling, labeled_at=NOW, latency_s=0)
        assert event.counters == {METRICS_LEFT_OUT: 8}
        assert event.scores["agent.calls"] == 3
        kept.add(frozenset(event.declared or {}))
    assert len(kept) == 1


def test_the_uses_of_calls_are_in_the_order_of_the_calls() -> None:
    uses = call_uses(run(*RETURN), [BOTH], {})
    assert uses == [
        CallUse(1, 1, 0),
        CallUse("no_evidence", "no_evidence", 1),
        CallUse(1, 1, 0),
        CallUse("no_evidence", "no_evidence", 0),
    ]
