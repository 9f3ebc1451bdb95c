"""Traces by hand, in the shapes in which other applications and instrumentations send them."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.traces import Branch, branch, spans

from ragtide_producers.traces.interactions import Mapped, Refusal, interactions_of
from ragtide_producers.traces.tree import ABOVE_MAX, Tree
from ragtide_runtime.settings.ingest import IngestSettings

TEXTS = ("The lock opens within five seconds.", "Helmets are lent for 2 euros.", "Park inside a green zone.")
QUESTION = "How do I unlock a bicycle?"
ANSWER = "Scan the code."


def found_in(root: Branch, **options: Any) -> list[Mapped]:
    return interactions_of(spans(root), IngestSettings(**options))


def only(root: Branch, **options: Any) -> tuple[str, list[str], str]:
    """Return question, texts and answer of the only interaction."""
    (found,) = found_in(root, **options)
    assert found.interaction is not None, found.detail
    return (
        found.interaction.question,
        [document.text for document in found.interaction.documents],
        found.interaction.response,
    )


def chain(name: str, *children: Branch, question: Any = None, answer: Any = None, kind: str = "CHAIN") -> Branch:
    texts = {"input.value": question, "output.value": answer}
    given = {key: value for key, value in texts.items() if value}
    return branch(name, {"openinference.span.kind": kind, **given}, *children)


def retriever(*texts: str, query: str = QUESTION, children: tuple[Branch, ...] = (), **fields: Any) -> Branch:
    documents = {f"retrieval.documents.{at}.document.content": text for at, text in enumerate(texts)}
    empty = {} if texts else {"output.value": "[]"}
    given = {"openinference.span.kind": "RETRIEVER", "input.value": query, **documents, **empty}
    return branch("search", given, *children, **fields)


def gap() -> Branch:
    whole = retriever(*TEXTS)
    left = {key: value for key, value in whole.attributes.items() if ".1." not in key}
    return branch("search", left)


def reranker(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Branch:
    names = {"input": inputs, "output": outputs}
    documents = {
        f"reranker.{side}_documents.{at}.document.content": text
        for side, texts in names.items()
        for at, text in enumerate(texts)
    }
    return branch("rerank", {"openinference.span.kind": "RERANKER", **documents})


def llm(text: str = ANSWER, asked: str = QUESTION, given: tuple[str, ...] = TEXTS[:2], **fields: Any) -> Branch:
    messages = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Answer by these documents:\n" + "\n".join(given),
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": asked,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": text,
    }
    return branch("ChatOpenAI", messages, **fields)


def tool_call() -> Branch:
    messages = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
    }
    return branch("ChatOpenAI", messages)


RIGHT = (QUESTION, list(TEXTS[:2]), ANSWER)


@pytest.mark.parametrize(
    "root",
    [
        pytest.param(chain("ask", retriever(*TEXTS[:2]), llm(), question=QUESTION, answer=ANSWER), id="plain"),
        pytest.param(branch("POST /ask", {}, chain("ask", retriever(*TEXTS[:2]), llm())), id="no text on the anchor"),
        pytest.param(
            chain("ask", llm("unlock"), retriever(*TEXTS[:2], query="unlock"), llm(), question=QUESTION),
            id="the query is rewritten before the retrieval",
        ),
        pytest.param(
            chain(
                "ask",
                chain("map", retriever(TEXTS[0]), retriever(TEXTS[1])),
                llm(),
                question=QUESTION,
                answer=ANSWER,
            ),
            id="parallel retrievals",
        ),
        pytest.param(
            chain(
                "agent", tool_call(), retriever(TEXTS[0]), tool_call(), retriever(*TEXTS[:2]), llm(), question=QUESTION
            ),
            id="repeated retrieval, with a repeated document",
        ),
        pytest.param(
            chain("ask", retriever(*TEXTS), reranker(TEXTS, TEXTS[:2]), llm(), question=QUESTION), id="reranked"
        ),
        pytest.param(
            chain(
                "ask",
                retriever(TEXTS[2], TEXTS[0]),
                reranker((TEXTS[2], TEXTS[0]), (TEXTS[0],)),
                retriever(TEXTS[1]),
                llm(),
                question=QUESTION,
            ),
            id="a reranking replaces its own inputs only",
        ),
        pytest.param(
            chain(
                "ask",
                retriever(*TEXTS[:2], children=(retriever(*TEXTS), llm("variants of the query"))),
                llm(),
                question=QUESTION,
            ),
            id="a retriever inside a retriever",
        ),
        pytest.param(
            chain("ask", chain("retrieve", retriever(*TEXTS[:2]), llm("yes")), llm(), question=QUESTION, answer=ANSWER),
            id="a model grades the documents first",
        ),
        pytest.param(
            chain("ask", retriever(*TEXTS[:2]), llm(), chain("safe?", llm("yes"), kind="GUARDRAIL"), question=QUESTION),
            id="a guardrail after the answer",
        ),
        pytest.param(
            chain(
                "ask",
                retriever(*TEXTS[:2]),
                llm(),
                question={"messages": [{"role": "user", "content": "Hello"}, {"role": "user", "content": QUESTION}]},
                answer={"messages": [["user", QUESTION], ["ai", ANSWER]]},
            ),
            id="a chat history",
        ),
        pytest.param(
            chain(
                "graph",
                retriever(*TEXTS[:2]),
                llm(),
                question=f"{{'messages': [HumanMessage(content='{QUESTION}', id='7')], 'documents': []}}",
                answer=f"{{'messages': [HumanMessage(content='{QUESTION}'), AIMessage(content='{ANSWER}')]}}",
            ),
            id="messages as Python's repr",
        ),
        pytest.param(
            chain(
                "graph",
                retriever(*TEXTS[:2]),
                llm(),
                question={
                    "messages": [
                        {
                            "lc": 1,
                            "type": "constructor",
                            "id": ["langchain", "schema", "messages", "HumanMessage"],
                            "kwargs": {"content": QUESTION, "type": "human"},
                        }
                    ]
                },
                answer={"generation": ANSWER, "documents": [{"page_content": TEXTS[2]}]},
            ),
            id="LangChain's serialized messages",
        ),
        pytest.param(
            chain(
                "ask",
                retriever(*TEXTS[:2]),
                llm(),
                question={"args": [], "kwargs": {"body": {"question": QUESTION, "top_k": 3}}},
                answer={"status": "ok", "result": {"answer": ANSWER, "sources": ["a", "b"]}},
            ),
            id="nested arguments",
        ),
    ],
)  # fmt: skip
def test_one_interaction(root: Branch) -> None:
    assert only(root) == RIGHT


def test_two_questions_below_one_root_are_two() -> None:
    root = chain(
        "batch",
        chain("ask", retriever(TEXTS[0]), llm(), question=QUESTION, answer=ANSWER),
        chain("ask", retriever(TEXTS[1]), llm("Two euros."), question="And a helmet?", answer="Two euros."),
    )
    found = [item.interaction for item in found_in(root) if item.interaction]
    assert [(item.question, item.response) for item in found] == [(QUESTION, ANSWER), ("And a helmet?", "Two euros.")]


def test_turns_that_follow_each_other_below_one_session_are_several() -> None:
    root = branch(
        "session",
        {},
        retriever(TEXTS[0]), llm(),
        retriever(TEXTS[1], query="And a helmet?"), llm("Two euros.", asked="And a helmet?"),
    )  # fmt: skip
    found = [item.interaction for item in found_in(root) if item.interaction]
    assert [(item.question, item.response) for item in found] == [(QUESTION, ANSWER), ("And a helmet?", "Two euros.")]
    assert len({item.interaction_id for item in found}) == 2


def test_nothing_found_is_an_interaction_without_documents() -> None:
    assert only(chain("ask", retriever(), llm(), question=QUESTION, answer=ANSWER)) == (QUESTION, [], ANSWER)


@pytest.mark.parametrize(
    "root",
    [
        pytest.param(chain("ask", llm(), question=QUESTION, answer=ANSWER), id="no retrieval"),
        pytest.param(chain("ask", retriever(TEXTS[0]), question=QUESTION, answer=ANSWER), id="no model call"),
        pytest.param(chain("ask", llm(), retriever(TEXTS[0]), question=QUESTION), id="no model call after it"),
        pytest.param(
            chain("ask", retriever(TEXTS[0]), llm(failed=True)),
            id="the model call failed",
        ),
        pytest.param(
            chain("index", branch("embed", {"openinference.span.kind": "EMBEDDING"}), retriever(TEXTS[0])),
            id="indexing",
        ),
        pytest.param(chain("ask", tool_call(), chain("add", kind="TOOL", answer={"sum": 3}), llm()), id="another tool"),
    ],
)  # fmt: skip
def test_no_interaction(root: Branch) -> None:
    assert found_in(root) == []


@for_each(
    "root, reason",
    [
        (chain("ask", gap(), llm()), "truncated"),
        (
            chain("ask", retriever(TEXTS[0], dropped_attributes=3), llm()),
            "truncated",
        ),
        (chain("ask", retriever(TEXTS[0]), llm(), question='{"question": "How do I', answer=ANSWER), "truncated"),
        (chain("ask", retriever("__REDACTED__", query="__REDACTED__"), llm(), question="__REDACTED__"), "no_content"),
        (chain("ask", branch("r", {"openinference.span.kind": "RETRIEVER"}), llm(), question=QUESTION), "no_content"),
        (chain("ask", retriever("x" * 1_000_001), llm(), question=QUESTION, answer=ANSWER), "invalid"),
    ],
)
def test_an_interaction_that_cannot_be_used_has_a_reason(root: Branch, reason: str) -> None:
    (found,) = found_in(root)
    assert (found.interaction, found.refusal) == (None, Refusal(reason))
    assert found.detail


BLANK = {"retrieval.documents.1.document.content": "", "retrieval.documents.1.document.metadata": "{}"}


@for_each(
    "blank",
    [
        BLANK,
        {"retrieval.documents.1.document.content": " \n"},
        {"retrieval.documents.1.document.id": "b", "retrieval.documents.1.document.score": 0.5},
    ],
)
def test_a_blank_chunk_among_good_ones_is_a_blank_chunk(blank: dict[str, Any]) -> None:
    found = {**gap().attributes, **blank}
    root = chain("ask", branch("search", found), llm(given=TEXTS), question=QUESTION, answer=ANSWER)
    assert only(root) == (QUESTION, [TEXTS[0], TEXTS[2]], ANSWER)


@for_each("text", ["", "__REDACTED__"])
def test_chunks_that_are_all_blank_or_hidden_are_not_captured(text: str) -> None:
    hidden = {"retrieval.documents.0.document.content": text, "retrieval.documents.0.document.metadata": "{}"}
    search = branch("search", {"openinference.span.kind": "RETRIEVER", "input.value": QUESTION, **hidden})
    (found,) = found_in(chain("ask", search, llm(), question=QUESTION, answer=ANSWER))
    assert found.refusal is Refusal.NO_CONTENT


def without(name: str, *, given: str) -> Branch:
    """Return a trace in which a content is there, in a form that nobody knows."""
    strange = {"secret_sauce": 7}
    search = branch("search", {"openinference.span.kind": "RETRIEVER", given: strange})
    return chain(
        "ask",
        search if name == "documents" else retriever(TEXTS[0], query=QUESTION if name != "question" else ""),
        branch("ChatOpenAI", {"openinference.span.kind": "LLM"}) if name == "response" else llm(asked=""),
        question=strange if name == "question" else QUESTION,
        answer=strange if name == "response" else ANSWER,
    )


@for_each("name, given", [("question", "input.value"), ("response", "output.value"), ("documents", "output.value")])
def test_what_is_there_and_cannot_be_read_is_named_with_its_place(name: str, given: str) -> None:
    (found,) = found_in(without(name, given=given))
    assert (found.interaction, found.refusal) == (None, Refusal.INVALID)
    for part in (name, given, "secret_sauce"):
        assert part in found.detail
    assert "OPENINFERENCE_HIDE" not in found.detail


GENAI_ASKED = {"gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]}


def genai(*parts: dict[str, Any], documents: Any = None, **fields: Any) -> Branch:
    """Return a trace whose root has no attributes, with these parts in the reply of the model."""
    found = {} if documents is None else {"gen_ai.retrieval.documents": documents}
    said = {"gen_ai.output.messages": [{"role": "assistant", "parts": list(parts)}]} if parts else {}
    search = branch("find", {"gen_ai.operation.name": "retrieval", **found})
    return branch("ask", {}, search, branch("chat", {"gen_ai.operation.name": "chat", **fields, **said}))


@for_each(
    "root, span",
    [
        (genai(documents=TEXTS, **GENAI_ASKED), "chat"),
        (genai({"type": "text", "content": ANSWER}, **GENAI_ASKED), "chat"),
        (genai({"type": "reasoning", "content": "It rains."}, documents=TEXTS, **GENAI_ASKED), "chat"),
        (genai({"type": "tool_call", "name": "find", "arguments": {}}, documents=TEXTS, **GENAI_ASKED), "chat"),
        (genai({"type": "text", "content": ANSWER}, documents=[{"id": "a", "score": 0.5}], **GENAI_ASKED), "find"),
        (genai(documents=TEXTS, **{"braintrust.output_json": [{"message": {"content": ANSWER}}]}), "chat"),
    ],
)
def test_advice_names_what_is_there_and_no_switch_that_is_on(root: Branch, span: str) -> None:
    (found,) = found_in(root)
    assert found.refusal is Refusal.NO_CONTENT
    assert repr(span) in found.detail
    assert "CAPTURE_MESSAGE_CONTENT" not in found.detail


@for_each(
    "kind, switch",
    [
        ({"haystack.component.type": "OpenAIGenerator"}, "HAYSTACK_CONTENT_TRACING_ENABLED"),
        ({"gen_ai.operation.name": "chat"}, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        ({"llm.request.type": "chat", "gen_ai.system": "OpenAI"}, "TRACELOOP_TRACE_CONTENT"),
        ({"langsmith.span.kind": "llm"}, "LANGSMITH_HIDE_OUTPUTS"),
        ({"gen_ai.operation.name": "chat.completions"}, "SEMANTICKERNEL_"),
    ],
)
def test_the_switch_is_that_of_the_span_without_content(kind: dict[str, str], switch: str) -> None:
    (found,) = found_in(branch("ask", {}, retriever(TEXTS[0]), branch("chat", kind)))
    assert found.refusal is Refusal.NO_CONTENT
    assert switch in found.detail


@for_each(
    "root, attribute, span",
    [
        (chain("ask", retriever(TEXTS[0]), llm(), question='{"question": "How do I'), "input.value", "ask"),
        (genai(documents=json.dumps(TEXTS)[:-9], **GENAI_ASKED), "gen_ai.retrieval.documents", "find"),
    ],
)
def test_a_cut_content_is_named_with_its_place(root: Branch, attribute: str, span: str) -> None:
    (found,) = found_in(root)
    assert found.refusal is Refusal.TRUNCATED
    assert f"{attribute} of the span {span!r}" in found.detail


@for_each("kind", ["chat", "acompletion", "atext_completion", "aresponses"])
def test_a_call_that_a_proxy_named_by_its_function_is_a_model_call(kind: str) -> None:
    prompts = {"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "\n".join(TEXTS)}
    prompts |= {"gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": QUESTION}
    said = {**prompts, "gen_ai.completion.0.content": ANSWER}
    call = branch("litellm_request", {"llm.request.type": kind, **said, "gen_ai.completion.0.role": "assistant"})
    assert only(branch("ask", {}, retriever(*TEXTS), call)) == (QUESTION, list(TEXTS), ANSWER)


def test_explicit_attributes_always_win() -> None:
    root = chain(
        "ask",
        retriever(*TEXTS),
        llm(),
        question="something else",
        answer="something else",
    )
    own = {
        "ragtide.question": QUESTION,
        "ragtide.response": ANSWER,
        "ragtide.documents": json.dumps([{"id": "a", "text": TEXTS[0]}]),
        "ragtide.pipeline": "pilot",
        "ragtide.session_id": "s-1",
        "ragtide.interaction_id": "i-1",
        "ragtide.segments.lang": "en",
    }
    root = Branch(root.name, {**root.attributes, **own}, root.children)
    assert only(root) == (QUESTION, [TEXTS[0]], ANSWER)
    found = found_in(root)[0].interaction
    assert found is not None
    assert (found.pipeline, found.session_id, found.interaction_id) == ("pilot", "s-1", "i-1")
    assert found.segments == {"lang": "en"}


def test_a_span_with_explicit_attributes_needs_no_other() -> None:
    own = {"question": QUESTION, "response": ANSWER, "documents": (TEXTS[0],)}
    root = branch("POST /ask", {}, branch("rag", {f"ragtide.{key}": value for key, value in own.items()}))
    assert only(root) == (QUESTION, [TEXTS[0]], ANSWER)


def test_a_service_without_a_name_needs_a_default() -> None:
    root = chain("ask", retriever(TEXTS[0]), llm(), question=QUESTION, answer=ANSWER)
    nameless = spans(root, service="unknown_service:python")
    (found,) = interactions_of(nameless, IngestSettings())
    assert found.refusal == Refusal.NO_PIPELINE
    (found,) = interactions_of(nameless, IngestSettings(default_pipeline="shop"))
    assert found.interaction is not None
    assert found.interaction.pipeline == "shop"


@for_each("missing", [0, 1])
def test_a_missing_parent_changes_nothing_but_its_own_content(missing: int) -> None:
    root = branch("POST /ask", {}, chain("ask", retriever(*TEXTS[:2]), llm()))
    whole = interactions_of(spans(root), IngestSettings())
    (found,) = interactions_of([span for at, span in enumerate(spans(root)) if at != missing], IngestSettings())
    assert found.interaction_id == whole[0].interaction_id
    assert found.interaction is not None
    assert found.interaction.question == QUESTION


def test_circles_of_parents_end() -> None:
    first, *others = spans(chain("ask", chain("inner", retriever(*TEXTS[:2]), llm()), question=QUESTION, answer=ANSWER))
    circle = [replace(first, parent_id=others[0].span_id), *others]
    (found,) = interactions_of(circle, IngestSettings())
    assert found.interaction is not None
    assert found.interaction.question == QUESTION


@for_each("depth", [1, 98, 99, 100, 101, 300])
def test_the_highest_span_says_what_it_knows_however_deep_the_answer_is(depth: int) -> None:
    root = chain("ask", retriever(*TEXTS[:2]), llm(), question=QUESTION, answer=ANSWER)
    for _ in range(depth):
        root = branch("step", {}, root)
    whole = spans(branch("POST /ask", {"session.id": "s1"}, root))
    (found,) = interactions_of(whole, IngestSettings())
    assert found.interaction is not None
    assert found.interaction.session_id == "s1"
    for node in Tree(whole).nodes:
        above = list(node.upwards())
        assert len(above) == len(set(above)) == min(node.depth, ABOVE_MAX + 1)


@for_each(
    "given", ["[1, 2]", json.dumps(TEXTS)[:-9], '[{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]']
)
def test_explicit_documents_that_cannot_be_read_are_named(given: str) -> None:
    own = {"ragtide.question": QUESTION, "ragtide.response": ANSWER, "ragtide.documents": given}
    (found,) = found_in(branch("ask", own))
    assert found.interaction is None
    assert "documents of" in found.detail
    assert "CAPTURE_MESSAGE_CONTENT" not in found.detail
