"""The texts of spans, in the forms in which instrumentations write what clients returned."""

import json
from typing import Any

from tests.support.cases import for_each
from tests.support.forms import ANSWER, CHUNKS, FILTER, FORMS, NOTHING, PNG, QUESTION, REFUSED, THOUGHT, Form
from tests.support.traces import Branch, branch, event, spans

from ragtide_producers.traces.interactions import Mapped, interactions_of
from ragtide_producers.traces.span import SpanEvent
from ragtide_runtime.settings.ingest import IngestSettings

OTHER = "Another answer."


def kind(name: str) -> dict[str, str]:
    return {"openinference.span.kind": name}


def trace(given: str | None = QUESTION, found: Branch | None = None, answer: str | None = None, **llm: Any) -> Branch:
    """Return a trace with a question, documents or an answer that a test gives."""
    documents = {f"retrieval.documents.{at}.document.content": text for at, text in enumerate((ANSWER, FILTER))}
    search = found or branch("search", {**kind("RETRIEVER"), **documents})
    texts = {"input.value": given, "output.value": answer}
    root = {**kind("CHAIN"), **{name: text for name, text in texts.items() if text is not None}}
    return branch("rag", root, search, branch("call", llm.get("attributes", kind("LLM")), **llm.get("fields", {})))


def only(root: Branch) -> Mapped | None:
    return next(iter(interactions_of(spans(root), IngestSettings())), None)


def seen(root: Branch, meaning: str = "answer") -> Any:
    found = only(root)
    if found is None or found.interaction is None:
        assert found is None or found.detail
        return REFUSED
    texts = {"answer": found.interaction.response, "question": found.interaction.question}
    return texts.get(meaning, tuple(document.text for document in found.interaction.documents))


def roots(form: Form) -> list[Branch]:
    value = form.value if isinstance(form.value, str) else json.dumps(form.value)
    if form.meaning == "answer":
        return [
            trace(answer=value),
            trace(attributes={**kind("LLM"), "output.value": value}),
            trace(attributes={"gen_ai.operation.name": "chat", "gen_ai.output.messages": value}),
            trace(attributes={"langfuse.observation.type": "generation", "langfuse.observation.output": value}),
        ]
    if form.meaning == "question":
        return [trace(value, answer=ANSWER)]
    search = {"openinference.span.kind": "RETRIEVER", "input.value": QUESTION, "output.value": value}
    of_genai = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": value}
    return [trace(found=branch("search", attributes), answer=ANSWER) for attributes in (search, of_genai)]


OF_ITS_OWN = (
    "answer in JSON of its own",
    "JSON of an application",
    "JSON with reasoning and a field of its own",
    "list of numbers as a text",
)
"""An application may answer so in a text; as an output it is the state of a program, and refused."""


@for_each(
    "form",
    [
        form
        for form in FORMS
        if "traces" in form.doors and form.meaning != "reference" and not isinstance(form.value, float)
    ],
)
def test_a_form_is_read_wherever_it_stands_in_a_trace(form: Form) -> None:
    refused = form.expected in (REFUSED, NOTHING) or form.name in OF_ITS_OWN
    for root in roots(form):
        assert seen(root, form.meaning) == (REFUSED if refused else form.expected)


SAYS = "llm.output_messages.0.message."
PART = f"{SAYS}contents.%d.message_content."
SECOND = "llm.output_messages.1.message."
OPENINFERENCE = {**kind("LLM"), f"{SAYS}role": "assistant"}
GENAI = {"gen_ai.operation.name": "chat"}


def contents(*parts: tuple[str, str]) -> dict[str, str]:
    """Return the attributes of parts of a message, as OpenInference flattens them."""
    found = dict(OPENINFERENCE)
    for at, (name, text) in enumerate(parts):
        key = "image.image.url" if name == "image" else "text"
        found |= {PART % at + "type": name, PART % at + key: text}
    return found


def said(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "parts": list(parts), **fields}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def messages(*found: dict[str, Any]) -> dict[str, Any]:
    return {**GENAI, "gen_ai.output.messages": list(found)}


def completion(at: int, role: str, content: Any, **fields: str) -> dict[str, Any]:
    fields = {"role": role, "content": content, **fields}
    return {"llm.request.type": "chat", **{f"gen_ai.completion.{at}.{key}": value for key, value in fields.items()}}


STOP = {"finish_reason": "stop"}
BLOB = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "aGVsbG8gd29ybGQ="}
MLFLOW = {"mlflow.spanType": '"CHAT_MODEL"'}
LOGFIRE = {"gen_ai.operation.name": "chat"}


@for_each(
    "attributes, expected",
    [
        (contents(("text", ANSWER)), ANSWER),
        (contents(*[("text", chunk) for chunk in CHUNKS]), ANSWER),
        (contents(("text", "The pump is "), ("text", ""), ("text", "serviced every 6 months.")), ANSWER),
        (contents(("image", PNG), ("reasoning", THOUGHT), ("text", ANSWER)), ANSWER),
        (contents(("reasoning", THOUGHT)), REFUSED),
        (contents(("image", "https://example.org/a.png")), REFUSED),
        ({**contents(("reasoning", THOUGHT)), f"{SECOND}role": "assistant", f"{SECOND}content": ANSWER}, ANSWER),
        ({**contents(("text", ANSWER)), f"{SECOND}role": "assistant", f"{SECOND}content": OTHER}, REFUSED),
        (
            {
                **contents(("text", ANSWER)),
                f"{SECOND}role": "assistant",
                f"{SECOND}content": OTHER,
                "output.value": {"choices": [{"message": {"content": ANSWER}}, {"message": {"content": OTHER}}]},
            },
            ANSWER,
        ),
        (messages(said(text("The pump is "), text(""), text("serviced every 6 months."), **STOP)), ANSWER),
        (messages(said({"type": "reasoning", "content": THOUGHT}, text(ANSWER), BLOB)), ANSWER),
        (messages(said(BLOB)), REFUSED),
        (messages(said(text(repr({"type": "text", "text": ANSWER, "index": 0})))), ANSWER),
        (messages(said(text(repr([{"type": "thinking", "thinking": THOUGHT}, {"text": ANSWER}])))), ANSWER),
        (messages(said(text(ANSWER), **STOP), said(text(OTHER), **STOP)), ANSWER),
        (messages(said(text(ANSWER)), said(text(OTHER))), REFUSED),
        (messages(said(text(OTHER), {"type": "tool_call", "name": "s"}), said(text(ANSWER))), ANSWER),
        (completion(0, "thinking", THOUGHT) | completion(1, "assistant", ANSWER), ANSWER),
        (completion(0, "assistant", [{"type": "text", "text": ANSWER}], reasoning=THOUGHT), ANSWER),
        (completion(0, "assistant", ANSWER, **STOP) | completion(1, "assistant", OTHER, **STOP), ANSWER),
        (
            {"ai.operationId": "ai.streamText.doStream", "ai.response.text": ANSWER, "ai.response.reasoning": "x"},
            ANSWER,
        ),
        ({"ai.operationId": "ai.generateObject.doGenerate", "ai.response.object": {"answer": ANSWER}}, ANSWER),
        ({**MLFLOW, "mlflow.spanOutputs": [{"choices": [{"delta": {"content": chunk}}]} for chunk in CHUNKS]}, ANSWER),
        ({**LOGFIRE, "response_data": {"combined_chunk_content": ANSWER, "chunk_count": 3}}, ANSWER),
        ({**LOGFIRE, "events": [{"role": "user", "content": "?"}, {"message": said(text(ANSWER))}]}, ANSWER),
        ({**kind("LLM"), "output.value": "null"}, REFUSED),
    ],
)
def test_the_answer_of_a_call_is_its_text_or_refused(attributes: dict[str, Any], expected: str) -> None:
    assert seen(trace(attributes=branch("", attributes).attributes)) == expected


def choice(message: Any, name: str = "message", **fields: Any) -> SpanEvent:
    return event("gen_ai.choice", {name: json.dumps(message), **fields})


@for_each(
    "events",
    [
        [choice({"role": "assistant", "content": ANSWER}, **STOP)],
        [choice({"content": ANSWER}, **STOP), choice({"content": OTHER}, **STOP)],
        [choice([{"type": "text", "text": ANSWER}, {"type": "image_url", "image_url": {"url": PNG}}])],
        [choice({"message": {"role": "assistant", "content": ANSWER}, "index": 0}, "gen_ai.event.content")],
    ],
)
def test_the_answer_in_the_events_of_a_call(events: list[SpanEvent]) -> None:
    assert seen(trace(attributes=GENAI, fields={"events": tuple(events)})) == ANSWER


def test_an_image_among_the_documents_is_left_out_and_one_alone_is_refused() -> None:
    name = "retrieval.documents.{}.document.content"
    for texts, expected in (((PNG, ANSWER), (ANSWER,)), ((PNG,), REFUSED)):
        documents = {name.format(at): text for at, text in enumerate(texts)}
        found = branch("search", {**kind("RETRIEVER"), "input.value": QUESTION, **documents})
        assert seen(trace(found=found, answer=ANSWER), "documents") == expected
