"""Why a trace gives no interaction, by real spans of frameworks and by hand."""

import pytest
from tests.producers.traces.test_constructions import traces_of

from ragtide_producers.traces.grouping import groups_of
from ragtide_producers.traces.nothing import Cause, why_nothing
from ragtide_producers.traces.span import Span
from ragtide_producers.traces.tree import Tree

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("name", "causes"),
    [
        ("langchain/no_retrieval", {Cause.NO_RETRIEVAL}),
        ("langchain/other_tool", {Cause.NO_RETRIEVAL}),
        ("langchain/no_common_span", {Cause.NO_RETRIEVAL, Cause.NO_MODEL_CALL}),
        ("langchain/failed", {Cause.FAILED}),
        ("langchain/retrieval_only", {Cause.ANSWER_REPEATS}),
        ("openai_agents/failed", {Cause.FAILED}),
        ("openai_agents/tool_as_answer", {Cause.NO_LATER_CALL}),
        ("pydantic_ai/failed", {Cause.FAILED}),
    ],
)
def test_a_trace_without_an_interaction_has_a_cause(name: str, causes: set[Cause]) -> None:
    trees = [Tree(trace) for trace in traces_of(name)]
    found = [why_nothing(tree) for tree in trees if not groups_of(tree)]
    assert {nothing.cause for nothing in found} == causes
    assert all(nothing.sentence for nothing in found)


def test_a_failed_attempt_is_named() -> None:
    kind = "openinference.span.kind"
    documents = {"retrieval.documents.0.document.content": "Green tea.", "input.value": "Which tea?"}
    spans = [
        Span("t", "1", None, "chain", 0, 9, {kind: "CHAIN"}),
        Span("t", "2", "1", "attempt", 1, 5, {kind: "CHAIN"}, failed=True),
        Span("t", "3", "2", "search", 2, 3, {kind: "RETRIEVER", **documents}),
        Span("t", "4", "1", "model", 6, 8, {kind: "LLM", "output.value": "Green."}),
    ]
    cause, sentence = why_nothing(Tree(spans))
    assert (cause, sentence) == (Cause.FAILED, "no span is a retrieval that succeeded: attempt failed")
