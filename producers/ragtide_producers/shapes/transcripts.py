"""The transcript of an agent's run as fields of an interaction: its question, calls, documents, answer and history."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ragtide_schemas.limits import DOCUMENT_TEXT_MAX_CHARS, DOCUMENTS_MAX, NAME_MAX_CHARS
from ragtide_schemas.plain_values import LeftOut, count_left_out

from .calls import AskedRun, ToolCall, run_in, step_fields, with_evidence
from .documents import Found
from .literals import UnreadableError, value_of
from .parts import plain
from .turns import turns_in


def fields_of_transcript(value: Any, name: str, left_out: LeftOut, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the last question that is answered in the messages of an agent's run.

    The documents are those in the results of its calls, each once. If the run ended without an answer, the response is
    empty. A result that is no text is left out and counted, and so are documents beyond the most of an interaction, and
    the rest of a text that is too long.

    Args:
        value: messages or items of OpenAI (chat, Responses), Anthropic, Gemini, Bedrock, OpenTelemetry GenAI,
            LangChain, Pydantic AI or Vercel's AI SDK, oldest first, or the JSON of them.
        name: of the field.
        left_out: takes the counts of what is left out.
        given: fields that the sender gave beside it, which win; its documents are those of the schema.

    Raises:
        UnreadableError: the value has no messages, or they have neither an answer nor a call.
    """
    counts: Counter[str] = Counter()
    run = _run_of(value, counts)
    for kind, number in counts.items():
        count_left_out(left_out, f"{name}.{kind}", number)
    if run.answer is None and not run.calls and given.get("response") is None:
        raise UnreadableError("it has no answer and no call of a tool after a question: give all messages of the run")
    if run.question is None and given.get("question") is None:
        raise UnreadableError("it has no question of a user: add its message, or give question")
    calls = [_bounded(with_evidence(call), left_out) for call in run.calls]
    documents = given.get("documents")
    retrieved = _documents_of(calls, left_out) if documents is None else _as_found(documents)
    fields: dict[str, Any] = {
        "question": run.question,
        "documents": [_fields_of(document) for document in retrieved],
        "response": run.answer or "",
        "history": turns_in(run.before) or None,
    }
    if given.get("steps") is None:
        steps, steps_left_out = step_fields(calls, retrieved, left_out)
        fields |= {"steps": steps or None, "steps_left_out": steps_left_out or None}
    return {field: value for field, value in fields.items() if value is not None and given.get(field) is None}


def _run_of(value: Any, counts: Counter[str]) -> AskedRun:
    if isinstance(value, str | bytes):
        value = value_of(value.decode("utf-8", "replace") if isinstance(value, bytes) else value, strict=True)
    value = plain(value, counts, reasoning=True)
    if isinstance(value, Mapping):
        value = next((value[key] for key in ("messages", "items", "input") if isinstance(value.get(key), list)), value)
    if not isinstance(value, list) or not value:
        raise UnreadableError("it is no list of messages: give the messages of the run, oldest first")
    return run_in(value)


def _bounded(call: ToolCall, left_out: LeftOut) -> ToolCall:
    documents = call.documents or ()
    beyond = sum(len(document.text or "") > DOCUMENT_TEXT_MAX_CHARS for document in documents)
    if not beyond:
        return call
    count_left_out(left_out, "documents.text", beyond)
    return call._replace(
        documents=[document._replace(text=(document.text or "")[:DOCUMENT_TEXT_MAX_CHARS]) for document in documents]
    )


def _documents_of(calls: Sequence[ToolCall], left_out: LeftOut) -> list[Found]:
    by_text: dict[str | None, Found] = {}
    for call in calls:
        for document in call.documents or ():
            by_text.setdefault(document.text, document)
    if len(by_text) > DOCUMENTS_MAX:
        count_left_out(left_out, "documents", len(by_text) - DOCUMENTS_MAX)
    return list(by_text.values())[:DOCUMENTS_MAX]


def _as_found(documents: Any) -> list[Found]:
    items = documents if isinstance(documents, list | tuple) else [documents]
    read = [item if isinstance(item, Mapping) else getattr(item, "__dict__", {"text": item}) for item in items]
    return [Found(str(item.get("text")), item.get("id")) for item in read]


def _fields_of(document: Found) -> dict[str, Any]:
    fields = {name: value for name, value in document._asdict().items() if value is not None}
    if len(document.id or "") > NAME_MAX_CHARS:
        del fields["id"]
    return fields
