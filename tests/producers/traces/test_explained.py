"""The explanation of a trace has what its interactions have, with its places, and a reason for each unused span."""

import time
from dataclasses import asdict

import pytest
from tests.producers.traces.test_constructions import traces_of
from tools.pages.constructions import fixtures

from ragtide_producers.traces.explaining import ExplainedTrace, explain_traces
from ragtide_producers.traces.span import Span
from ragtide_runtime.settings.ingest import IngestSettings

pytestmark = pytest.mark.pure
KIND = "openinference.span.kind"


def explained(name: str) -> list[ExplainedTrace]:
    return [found for trace in traces_of(name) for found in explain_traces(trace, IngestSettings())]


def chain(prompt: str, *documents: str, answer: str = "Green.") -> list[Span]:
    """Return a chain with a retrieval and a model call with this prompt."""
    found = {f"retrieval.documents.{i}.document.content": text for i, text in enumerate(documents)}
    message = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": prompt}
    resource = {"service.name": "shop"}
    return [
        Span(
            "t",
            "1",
            None,
            "chain",
            0,
            9,
            {KIND: "CHAIN", "input.value": "Which tea?", "output.value": answer},
            resource,
        ),
        Span("t", "2", "1", "search", 1, 2, {KIND: "RETRIEVER", "input.value": "Which tea?", **found}, resource),
        Span("t", "3", "1", "model", 3, 8, {KIND: "LLM", "output.value": answer, **message}, resource),
    ]


@pytest.mark.parametrize("name", fixtures())
def test_an_explanation_has_the_content_of_its_interactions_and_where_it_is_from(name: str) -> None:
    for trace in explained(name):
        assert len(trace.contents) == len(trace.interactions)
        assert bool(trace.reason) == (not trace.interactions)
        for mapped, content in zip(trace.interactions, trace.contents, strict=True):
            found = mapped.interaction
            if found is None:
                continue
            assert (content.question, content.response) == (found.question, found.response)
            assert content.question_from
            assert [document.text for document in content.documents] == [one.text for one in found.documents]
            assert (content.documents_from or None) == found.metadata.get("documents_from")
            assert len(content.not_given) == found.metadata.get("documents_not_given", 0)
            if content.documents_from == "prompt" and content.documents:
                assert content.prompts


@pytest.mark.parametrize("name", fixtures())
def test_each_retrieval_tool_and_model_call_has_a_part_or_a_reason(name: str) -> None:
    spans = [span for trace in explained(name) for span in trace.spans]
    assert [span.name for span in spans if span.role in ("retrieval", "rerank", "llm", "tool") and not span.part] == []


def test_the_prompt_stands_beside_the_documents_that_were_taken() -> None:
    whole, cut, left = (
        "Green tea is steeped at 80 degrees.",
        "Black tea likes boiling water, says the handbook.",
        "Oolong.",
    )
    (trace,) = explain_traces(
        chain(f"Context:\n{cut[:29]}...\n{whole}\nWhich tea?", whole, cut, left), IngestSettings()
    )
    (content,) = trace.contents
    assert [(document.text == whole, document.is_cut) for document in content.documents] == [
        (False, True),
        (True, False),
    ]
    assert [(document.text, document.spans) for document in content.not_given] == [(left, ["search"])]
    assert content.prompts[0].messages == [
        {"author": "user", "text": "Context:\n[document 1]...\n[document 2]\nWhich tea?"}
    ]
    assert (content.question_from, content.response_from) == ("input of chain", "output of chain")
    assert {span.name: span.part for span in trace.spans} == {
        "chain": "interaction 1",
        "search": "documents of interaction 1: 3, not given 1",
        "model": "answer of interaction 1",
    }


def test_an_interaction_that_cannot_be_used_is_explained_as_far_as_its_spans_can_be_read() -> None:
    spans = chain("Context:\nGreen tea is best.\nWhich tea?", "Green tea is best.")
    nameless = [
        Span("t", span.span_id, span.parent_id, span.name, span.start_ns, span.end_ns, span.attributes)
        for span in spans
    ]
    (trace,) = explain_traces(nameless, IngestSettings())
    assert trace.interactions[0].refusal == "no_pipeline"
    assert [document.text for document in trace.contents[0].documents] == ["Green tea is best."]
    assert trace.contents[0].question == "Which tea?"


def test_large_prompts_and_many_documents_are_explained_soon() -> None:
    documents = [
        f"Document {number} says that tea number {number} is steeped for {number} minutes." for number in range(1_000)
    ]
    spans = chain("\n".join([*documents, "Which tea?"]) + " words" * 20_000, *documents)
    begin = time.process_time()
    (trace,) = explain_traces(spans, IngestSettings())
    assert time.process_time() - begin < 5
    assert len(trace.contents[0].documents) == 1_000
    assert len(str(asdict(trace.contents[0]))) < 2_000_000


@pytest.mark.parametrize(
    ("name", "role", "part"),
    [
        ("langchain/grading", "llm", "no part of the answer of interaction 1"),
        ("langchain/refine", "llm", "led to the answer of interaction 1"),
        ("langchain/fallback", "retrieval", "unused: inside RunnableSequence, which failed"),
        ("langchain/agent", "tool", "call 1 of interaction 1 (round 1)"),
        ("langchain/agent_as_tool", "tool", "unused: the spans inside it count"),
        ("langchain/tool_error", "tool", "call 1 of interaction 1 (round 1), failed: timeout"),
        ("langchain/other_tool", "tool", "unused: its name indicates no search, and its reply has no ids or scores"),
        ("langgraph/tool_error", "tool", "call 1 of interaction 1 (round 1), failed: timeout"),
        ("openai_agents/handoff", "tool", "unused: it only steers agents"),
        ("openai_agents/guardrail", "llm", "unused: inside a guard"),
        ("openai_agents/tool_as_answer", "tool", "unused: no model call follows"),
    ],
)
def test_a_span_that_is_not_used_is_named_with_the_reason(name: str, role: str, part: str) -> None:
    assert (role, part) in {(span.role, span.part) for trace in explained(name) for span in trace.spans}
