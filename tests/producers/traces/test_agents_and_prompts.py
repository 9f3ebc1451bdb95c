"""Answers of objects as text, questions of agents, and documents that only a prompt or a tool has."""

import json
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.traces import Branch, branch, spans

from ragtide_producers.shapes.documents import Found
from ragtide_producers.shapes.literals import value_of
from ragtide_producers.shapes.prompts import context_in
from ragtide_producers.shapes.texts import text_in
from ragtide_producers.traces.history import without_documents
from ragtide_producers.traces.interactions import Mapped, Refusal, interactions_of
from ragtide_producers.traces.reading import if_readable
from ragtide_runtime.settings.ingest import IngestSettings

pytestmark = pytest.mark.pure

TEXTS = ["The lock opens within five seconds.", "Helmets are lent for 2 euros."]
QUESTION = "How do I unlock a bicycle?"
ANSWER = "Scan the code."
IDS = [{"id": "a", "score": 0.9}, {"id": "b", "score": 0.4}]


def mapped(root: Branch, **options: Any) -> list[Mapped]:
    return interactions_of(spans(root), IngestSettings(**options))


def only(root: Branch, **options: Any) -> tuple[str, list[tuple[str | None, str]], str]:
    (found,) = mapped(root, **options)
    assert found.interaction is not None, found.detail
    documents = [(document.id, document.text) for document in found.interaction.documents]
    return found.interaction.question, documents, found.interaction.response


HAYSTACK = (
    f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text='{ANSWER}')], _meta={{'n': 1}})"
)


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        pytest.param(json.dumps({"llm": {"replies": [HAYSTACK]}}), ANSWER, id="object in JSON"),
        pytest.param(HAYSTACK, ANSWER, id="object"),
        pytest.param(f"content='{ANSWER}' additional_kwargs={{}} id='run-1'", ANSWER, id="fields of a model"),
        pytest.param(f"AgentOutput(response=ChatMessage(role='assistant', content='{ANSWER}'))", ANSWER, id="nested"),
        pytest.param("Point(x=1, y=2)", "Point(x=1, y=2)", id="code"),
        pytest.param('{"answer": "open(path=\'a\')"}', "open(path='a')", id="code in JSON"),
        pytest.param("width=2 is enough", "width=2 is enough", id="sentence"),
        pytest.param('Set x="1" and restart', 'Set x="1" and restart', id="sentence with a quote"),
        pytest.param("StopEvent(result=AgentOutput(response=ChatMess...", None, id="cut"),
        pytest.param("<ChatRole.USER: 'user'>", "<ChatRole.USER: 'user'>", id="member"),
    ],
)
def test_the_answer_in_the_text_of_an_object(output: str, answer: str | None) -> None:
    assert if_readable(lambda: text_in(value_of(output), "answer"), None) == answer


def chat(*messages: dict[str, Any], answer: str | None = ANSWER) -> Branch:
    calls = [{"type": "tool_call", "id": "1", "name": "handbook", "arguments": "{}"}]
    parts = [{"type": "text", "content": answer}] if answer else calls
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": list(messages),
        "gen_ai.output.messages": [{"role": "assistant", "parts": parts}],
    }
    return branch("chat", attributes)


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def tool_result(result: Any, role: str = "tool", key: str = "response") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "tool_call_response", "id": "1", key: result}]}


def ids_only(**more: Any) -> Branch:
    return branch("retrieval", {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": IDS, **more})


def tool(name: str, *children: Branch, result: Any = None) -> Branch:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return branch(f"execute_tool {name}", {**attributes, "gen_ai.tool.call.result": result or "done"}, *children)


def test_the_question_of_an_agent_is_that_of_the_user_and_not_the_query_of_the_model() -> None:
    search = branch(
        "execute_tool search_documents",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search_documents",
            "gen_ai.tool.call.arguments": {"query": "unlock"},
            "gen_ai.tool.call.result": [{"id": "a", "text": TEXTS[0]}],
        },
    )
    asked = said("user", QUESTION)
    root = branch("POST /ask", {}, chat(asked, answer=None), search, chat(asked, tool_result(TEXTS)))
    assert only(root) == (QUESTION, [("a", TEXTS[0])], ANSWER)


def test_the_messages_of_an_agent_have_its_question() -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "final_result": ANSWER}
    messages = [said("user", "Is it open?"), said("assistant", "Yes."), said("user", QUESTION)]
    search = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "unlock", "output": TEXTS}
    root = branch("agent", {**agent, "pydantic_ai.all_messages": messages}, branch("search", search), chat())
    assert only(root)[0] == QUESTION


@for_each("streamed", ["", QUESTION])
def test_the_message_of_a_workflow_may_be_its_input_as_json(streamed: str) -> None:
    given = [said("user", json.dumps({"input": streamed}))]
    workflow = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.input.messages": given}
    query = {"gen_ai.retrieval.query.text": QUESTION}
    prompt = said("system", "Answer by these documents:\n" + "\n\n".join(TEXTS))
    assert only(branch("workflow", workflow, ids_only(**query), chat(prompt, said("user", QUESTION))))[0] == QUESTION


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(tool_result("\n\n".join(TEXTS)), id="paragraphs"),
        pytest.param(tool_result("\n".join(TEXTS)), id="lines"),
        pytest.param(tool_result([{"text": text} for text in TEXTS], role="user", key="result"), id="documents"),
        pytest.param({"role": "tool", "content": "\n\n".join(TEXTS), "tool_call_id": "1"}, id="OpenAI"),
    ],
)
def test_documents_with_ids_only_have_the_texts_of_the_tools_result(result: dict[str, Any]) -> None:
    system, asked = said("system", "You answer by the handbook."), said("user", QUESTION)
    root = branch(
        "agent", {}, chat(system, asked, answer=None), tool("handbook", ids_only()), chat(system, asked, result)
    )
    assert only(root) == (QUESTION, [("a", TEXTS[0]), ("b", TEXTS[1])], ANSWER)


@pytest.mark.parametrize("place", ["llm.prompts", "llm.prompts.0.prompt.text", "llm.prompts.0.prompt", "llm.prompts.0"])
def test_the_prompt_of_a_completion_has_the_texts_of_documents_with_ids_only(place: str) -> None:
    prompt = f"Context:\n{TEXTS[0]}\n{TEXTS[1]}\n\nQuestion: {QUESTION}\nAnswer:"
    attributes = {
        "openinference.span.kind": "LLM",
        place: [prompt] if place == "llm.prompts" else prompt,
        "output.value": ANSWER,
    }
    query = {"gen_ai.retrieval.query.text": QUESTION}
    found = only(branch("answer", {}, ids_only(**query), branch("complete", attributes)))
    assert found == (QUESTION, [("a", TEXTS[0]), ("b", TEXTS[1])], ANSWER)


def test_results_before_the_last_question_are_no_documents_of_it() -> None:
    earlier = [said("user", "Is it open?"), tool_result("It is open.\n\nIt is Monday."), said("assistant", "Yes.")]
    asked = said("user", f"Context:\n{TEXTS[0]}\n\n{TEXTS[1]}\n\nQuestion: {QUESTION}")
    query = {"gen_ai.retrieval.query.text": QUESTION}
    assert only(branch("answer", {}, ids_only(**query), chat(*earlier, asked)))[1] == list(
        zip("ab", TEXTS, strict=True)
    )


def test_instructions_of_the_system_are_no_document() -> None:
    query = {"gen_ai.retrieval.query.text": QUESTION}
    root = branch("answer", {}, ids_only(**query), chat(said("system", "You are helpful."), said("user", QUESTION)))
    (found,) = mapped(root)
    assert (found.interaction, found.refusal) == (None, Refusal.NO_CONTENT)


@for_each("number", [1, 2])
def test_paragraphs_after_the_instructions_are_the_documents_if_they_are_as_many(number: int) -> None:
    query = {"gen_ai.retrieval.query.text": QUESTION, "gen_ai.retrieval.documents": IDS[:number]}
    system = said("system", "\n\n".join(["Answer only by the passages.", *TEXTS[:number]]))
    root = branch("answer", {}, ids_only(**query), chat(system, said("user", QUESTION)))
    assert only(root)[1] == list(zip("ab", TEXTS, strict=True))[:number]


@for_each(
    "prompt, context",
    [
        ("Answer by these documents:\n{0}\n{1}\n\nQuestion: {q}", "{0}\n{1}"),
        ("You are helpful.\n\nContext:\n{0}\n\n{1}\n\nQuestion: {q}\nAnswer:", "{0}\n\n{1}"),
        ("Use the retrieved context. Be short.\nQuestion: {q} \nContext: {0}\n{1} \nAnswer:", "{0}\n{1}"),
        ("Answer.\n<context>\n{0}\n{1}\n</context>\n{q}", "{0}\n{1}"),
        ("{0}\n\n{1}\n\n{q}", "{0}\n\n{1}"),
        ("{0}\n\n{1}", "{0}\n\n{1}"),
        ("**Documents:** {0}\n{1}", "{0}\n{1}"),
        ("You are helpful.", None),
        ("{q}", None),
        ("", None),
    ],
)
def test_the_context_in_a_prompt(prompt: str, context: str | None) -> None:
    filled = prompt.format(*TEXTS, q=QUESTION)
    assert context_in(filled, QUESTION, 2) == (None if context is None else context.format(*TEXTS))


def test_a_heading_far_inside_is_a_part_of_a_document() -> None:
    text = "\n".join(["A line of a long document."] * 200 + ["Sources:", "the archive", QUESTION])
    assert context_in(text, QUESTION, 1) == text.removesuffix("\n" + QUESTION)


def test_an_artifact_of_a_tool_has_its_documents() -> None:
    artifact = [{"id": key, "page_content": text, "metadata": {}} for key, text in zip("ab", TEXTS, strict=True)]
    message = {"type": "tool", "data": {"content": " ".join(TEXTS), "artifact": artifact, "type": "tool"}}
    kind = {"openinference.span.kind": "TOOL", "tool.name": "handbook", "output.value": message}
    asked = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
    root = branch("answer", asked, branch("handbook", kind), branch("call", {"openinference.span.kind": "LLM"}))
    assert only(root)[1] == list(zip("ab", TEXTS, strict=True))


def test_a_tool_is_a_retrieval_if_the_setting_names_it() -> None:
    asked = said("user", QUESTION)
    handbook = tool("Handbook", result=TEXTS[0])
    root = branch("agent", {}, chat(asked, answer=None), handbook, chat(asked, tool_result(TEXTS[0])))
    assert mapped(root) == []
    assert only(root, retrieval_names=frozenset({"handbook"})) == (QUESTION, [(None, TEXTS[0])], ANSWER)


def step(name: str, output: Any, *below: Branch, kind: str = "CHAIN") -> Branch:
    return branch(name, {"openinference.span.kind": kind, "input.value": QUESTION, "output.value": output}, *below)


LISTED = [{"page_content": text, "metadata": {}, "type": "Document"} for text in TEXTS]
CALL = step("model", ANSWER, kind="LLM")


@for_each(
    "name, output",
    [
        ("retrieve", {"context": LISTED}),
        ("vector_search", {"question": QUESTION, "documents": TEXTS}),
        ("search", TEXTS),
    ],
)
def test_a_step_of_a_graph_that_searches_is_a_retrieval(name: str, output: Any) -> None:
    root = step("graph", {"answer": ANSWER}, step("generate_search_query", "unlock"), step(name, output), CALL)
    assert only(root) == (QUESTION, [(None, text) for text in TEXTS], ANSWER)


def test_a_step_that_searches_with_a_retriever_inside_is_none_of_its_own() -> None:
    documents = {f"retrieval.documents.{at}.document.content": text for at, text in enumerate(TEXTS)}
    retriever = branch("retriever", {"openinference.span.kind": "RETRIEVER", **documents})
    root = step("graph", {"answer": ANSWER}, step("retrieve", {"context": ["formatted"]}, retriever), CALL)
    assert [text for _, text in only(root)[1]] == TEXTS


@for_each("name", ["search_and_answer", "semantic-search", "research"])
def test_a_step_with_the_answer_inside_is_no_retrieval(name: str) -> None:
    state = {"documents": LISTED, "answer": ANSWER}
    root = step(name, state, step("retrieve", {"context": LISTED}), CALL)
    assert only(root) == (QUESTION, [(None, text) for text in TEXTS], ANSWER)


@for_each("printed", ["StopEvent(result=AgentOutput(respo...", "<generator object answer at 0x7f7a9a8b3890>"])
def test_the_answer_of_a_span_that_only_prints_an_object_is_that_of_its_last_model_call(printed: str) -> None:
    search, asked = step("retrieve", {"context": LISTED}), said("user", QUESTION)
    assert only(step("agent", printed, search, chat(asked)))[2] == ANSWER
    (refused,) = mapped(step("agent", printed, search, chat(asked, answer=None)))
    assert refused.refusal == Refusal.INVALID


@for_each("name", ["generate_search_query", "rewrite_for_retrieval", "should_retrieve", "plan_search"])
@for_each("kind", [{"openinference.span.kind": "CHAIN"}, {}])
def test_a_step_around_a_retrieval_has_no_documents(name: str, kind: dict[str, str]) -> None:
    around = branch(name, {**kind, "output.value": "unlock bicycle"})
    root = step("graph", {"answer": ANSWER}, around, step("retrieve", {"context": LISTED}), CALL)
    assert [text for _, text in only(root)[1]] == TEXTS


def test_an_earlier_response_that_quotes_a_document_stays_whole() -> None:
    turns = [{"question": f"{TEXTS[0]} Is that so?", "response": TEXTS[0]}]
    kept = [{"question": "Is that so?", "response": TEXTS[0]}]
    assert without_documents(turns, [Found(TEXTS[0])]) == kept


@for_each(
    "text",
    [
        "Context:" * 200_000,
        "a=" * 500_000,
        "context " * 200_000,
        "A(b=" * 300_000,
        "<A.b: " * 200_000 + "1" + ">" * 200_000,
        "<context>" * 200_000,
        ("context" + " " * 90 + "\n") * 20_000,
        "Question: " * 100_000 + "\n" * 100_000,
    ],
)
def test_hostile_texts_end(text: str) -> None:
    context_in(text, "Question:", 3)
    text_in(value_of(text), "answer")
    text_in(value_of(json.dumps({"output": [text] * 3})), "answer")


RETRIEVAL = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": IDS}


def asked_with(text: str, answer: str, **variables: str) -> Branch:
    """Return a model call of OpenTelemetry's instrumentation, whose retrievals have ids alone."""
    found = chat(said("user", text), answer=answer)
    return branch(
        found.name, {**found.attributes, **{f"gen_ai.prompt.variable.{name}": v for name, v in variables.items()}}
    )


def test_the_reply_of_a_model_that_is_the_result_of_a_tool_is_no_document() -> None:
    """A chain as a tool of an agent: the texts of its documents are in its own prompt."""
    reply = "It opens within five seconds."
    inner = asked_with("\n\n".join([*TEXTS, "unlock?"]), reply, context="\n\n".join(TEXTS))
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask", "gen_ai.tool.call.result": reply}
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": reply}]}
    last = chat(said("user", QUESTION), result)
    root = branch(
        "agent",
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": [said("user", QUESTION)],
         "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]},
        chat(said("user", QUESTION), answer=None), branch("ask", tool, branch("find", RETRIEVAL), inner), last,
    )  # fmt: skip
    assert only(root) == (QUESTION, [("a", TEXTS[0]), ("b", TEXTS[1])], ANSWER)


def test_what_models_wrote_of_documents_with_ids_only_is_no_document() -> None:
    notes = [
        asked_with(f"Note: {text}", note) for text, note in zip(TEXTS, ["It opens soon.", "They cost 2."], strict=True)
    ]
    last = asked_with(f"Combine these:\nIt opens soon.\nThey cost 2.\n{QUESTION}", ANSWER)
    (found,) = mapped(branch("answer", {}, branch("find", RETRIEVAL), *notes, last))
    assert found.refusal is Refusal.NO_CONTENT


def test_an_answer_that_quotes_a_document_hides_none() -> None:
    """Retrievals have ids alone, and the prompt has the texts below a heading."""
    prompt = "Context:\n{}\n\nQuestion: {}".format("\n\n".join(TEXTS), QUESTION)
    told = {"input.value": QUESTION, "output.value": TEXTS[0]}
    (found,) = mapped(branch("answer", told, branch("find", RETRIEVAL), asked_with(prompt, TEXTS[0])))
    assert found.interaction is not None, found.detail
    assert [(document.id, document.text) for document in found.interaction.documents] == [
        ("a", TEXTS[0]),
        ("b", TEXTS[1]),
    ]
    assert found.interaction.response == TEXTS[0]


@for_each("verdict", ["grounded", "Yes.", "no", "7"])
def test_a_verdict_on_an_answer_is_not_taken_for_the_answer(verdict: str) -> None:
    """No span has question and answer, so the last reply would be the answer."""
    drafted = "Scan the code with the application."
    check = asked_with(f"Is this grounded? {drafted}", verdict)
    draft = asked_with("\n".join([*TEXTS, QUESTION]), drafted, context="\n".join(TEXTS), question=QUESTION)
    (found,) = mapped(branch("answer", {}, branch("find", RETRIEVAL), draft, check))
    assert found.refusal is Refusal.INVALID
    assert "ragtide.response" in found.detail
    (found,) = mapped(
        branch("answer", {"input.value": QUESTION, "output.value": drafted}, branch("find", RETRIEVAL), draft, check)
    )
    assert found.interaction is not None, found.detail
    assert found.interaction.response == drafted


def test_an_agent_may_answer_with_one_word() -> None:
    """What it said before it asked a tool stands in its last prompt as its own."""
    call = {"type": "tool_call", "id": "1", "name": "handbook", "arguments": "{}"}
    looked = {"role": "assistant", "parts": [{"type": "text", "content": "Let me look that up."}, call]}
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "\n".join(TEXTS)}]}
    first = branch(
        "chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [said("user", QUESTION)],
            "gen_ai.output.messages": [looked],
        },
    )
    last = chat(said("user", QUESTION), looked, result, answer="Yes.")
    found = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": [{"content": text} for text in TEXTS]}
    (seen,) = mapped(branch("answer", {}, first, branch("find", found), last))
    assert seen.interaction is not None, seen.detail
    assert seen.interaction.response == "Yes."
