"""Calls of tools in a conversation, and as steps of an interaction: one record for traces, transcripts and rows.

Sources: OpenAI (chat, Responses), Anthropic, Gemini, Bedrock Converse, OpenTelemetry GenAI, LangChain, Pydantic AI,
Vercel AI SDK.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ragtide_schemas.limits import ROUNDS_MAX, STEPS_MAX
from ragtide_schemas.plain_values import LeftOut, count_left_out
from ragtide_schemas.retrieval_steps import STEP_NAMES_MAX, step_name

from .documents import Found
from .literals import CLASS, UnreadableError, value_of
from .replies import documents_in, is_error, reports_nothing

NO_RESULT: Final = object()
"""The result of a call to which none is known."""
OTHER_TOOLS: Final = "other_tools"
"""Name of the calls of all tools beyond the names that an interaction may have."""
_QUERIES: Final = frozenset(("query", "q", "question", "search_query", "input", "text", "queries"))
"""Names of the only argument of a call that is asked with one text."""
_PYTHON: Final = frozenset(("args", "kwargs", CLASS))
_DEPTH_MAX: Final = 4
"""Levels of an error in a reply in a message, and of arguments in arguments."""
_ERROR_CHARS: Final = 2_000
_NO_KINDS: Final = frozenset(("error", "exception", "other", "base_exception", "runtime_error"))
_SAID: Final = ("error", "code", "error_code", "type", "message", "content", "text", "response")
_STATUS: Final = r"(?:^|http|status|code|error)\W{0,3}(?:code|status)?\W{0,3}"
_ERRORS: Final[Mapping[str, re.Pattern[str]]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        "timeout": rf"time ?d?[ _-]?out|deadline.{{0,3}}exceeded|{_STATUS}(?:408|504)\b",
        "rate_limited": rf"rate.?limit|too.?many.?requests|throttl|quota|{_STATUS}429\b",
        "denied": rf"unauthori[sz]ed|forbidden|permission.?denied|access.?denied|authentication|{_STATUS}40[13]\b",
        "unavailable": r"unavailable|unreachable|connect(?:ion)?.{0,20}(?:error|refused|reset|failed)|"
        rf"{_STATUS}50[023]\b",
    }.items()
}
_CLASS: Final = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}([A-Za-z]\w{0,60})")
_MARK: Final = re.compile(r"[a-z][A-Z]|\w_\w|[Ee]rror|[Ee]xception")
"""What a class or a code has and a word of a message lacks."""
_NAMED_ERROR: Final = re.compile(r"\W{0,4}(?:[\w.]{0,80}\.)?([A-Z]\w{0,60}(?:Error|Exception|Failure))\b")


class ToolCall(NamedTuple):
    """A call of a tool by an agent, with what came of it."""

    name: str
    arguments: Any = None
    """None if they are not known."""
    call_id: str | None = None
    round: int | None = None
    """From 1; calls of one round were made without the results of each other. None if it is not known."""
    result: Any = NO_RESULT
    error: str | None = None
    """The kind of its error, as `error_kind` returns it."""
    latency_s: float | None = None
    documents: Sequence[Found] | None = None
    """The documents in its result; empty if it looked for some and found none, None if it did not look for any."""


def calls_in(items: Any) -> list[ToolCall]:
    """Return the calls in the messages after the last question that was answered, oldest first, with their results.

    Args:
        items: messages or items of a conversation, oldest first.
    """
    calls: list[ToolCall] = []
    places: dict[str, int] = {}
    last_round = 0
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, Mapping):
            continue
        asked_tools = item.get("tool_calls")
        if isinstance(asked_tools, list) and asked_tools:
            last_round += 1
            for call in asked_tools:
                function = call.get("function") if isinstance(call, Mapping) else None
                if isinstance(function, Mapping):
                    places[str(call.get("id"))] = len(calls)
                    arguments, name = function.get("arguments"), str(function.get("name") or "tool")
                    calls.append(ToolCall(name, arguments, call.get("id"), last_round))
        elif item.get("role") == "tool" and str(item.get("tool_call_id")) in places:
            place = places[str(item["tool_call_id"])]
            calls[place] = with_result(calls[place], item.get("content"))
    return calls


def with_result(call: ToolCall, result: Any) -> ToolCall:
    """Return a call with its result: the documents in it, or the kind of its error."""
    if is_error(result):
        return call._replace(result=result, error=error_kind(result))
    return call._replace(result=result, documents=evidence_in(call.name, result))


def evidence_in(name: str, result: Any) -> list[Found] | None:
    """Return the documents in the result of a tool; None if the result is no evidence, such as `ok` of a booking.

    Args:
        name: of the tool.
        result: without an error.
    """
    try:
        documents = documents_in(result)
    except UnreadableError:
        return None
    return documents if documents is not None and is_evidence(name, result, documents) else None


def is_evidence(name: str, result: Any, documents: Sequence[Found]) -> bool:
    """Whether the documents that were read from the result of a tool are evidence, or an empty list that nothing is.

    Args:
        name: of the tool.
        result: the result as it is.
        documents: that were read from it.
    """
    del name
    return bool(documents) or reports_nothing(result)


def step_fields(
    calls: Sequence[ToolCall], documents: Sequence[Found], left_out: LeftOut
) -> tuple[list[dict[str, Any]], int]:
    """Return calls as the `steps` of an interaction, and how many calls are not among them.

    The first 64 calls stay. If they have more than 16 names, the later names become `other_tools`.

    Args:
        calls: in the order in which they were made.
        documents: those of the interaction.
        left_out: takes the count of calls whose name was replaced.
    """
    calls = sorted(calls, key=lambda call: call.round or 1) if all(call.round for call in calls) else calls
    kept = calls[:STEPS_MAX]
    named = [step_name(call.name) or "tool" for call in kept]
    names = list(dict.fromkeys(named))
    if len(names) > STEP_NAMES_MAX:
        names = names[: STEP_NAMES_MAX - 1]
        count_left_out(left_out, "steps.name", sum(name not in names for name in named))
    places = DocumentPlaces(documents)
    steps: list[dict[str, Any]] = []
    for name, call in zip(named, kept, strict=True):
        fields = {"name": name if name in names else OTHER_TOOLS, "kind": "tool", **asked(call.arguments)}
        if call.round is not None:
            fields["round"] = min(call.round, ROUNDS_MAX)
        if call.latency_s is not None:
            fields["latency_s"] = call.latency_s
        if call.error is not None:
            fields["error"] = call.error
        elif call.documents is not None:
            fields |= {"documents": places.of(call.documents), "returned": len(call.documents)}
        steps.append(fields)
    return steps, len(calls) - len(kept)


class DocumentPlaces:
    """Finds returned documents among those of the interaction.

    A document is the same if its text is, or if its id is and no other document has it.
    """

    def __init__(self, documents: Sequence[Found]) -> None:
        self._by_text = {document.text: index for index, document in enumerate(documents)}
        self._by_id = {document.id: index for index, document in enumerate(documents)}
        self._ids = Counter(document.id for document in documents)

    def of(self, returned: Sequence[Found]) -> list[int]:
        """Return the indexes of the documents, in the order in which they were returned."""
        own_ids = Counter(document.id for document in returned)
        places: dict[int, None] = {}
        for document in returned:
            place = None if document.text is None else self._by_text.get(document.text)
            if place is None and document.id is not None and own_ids[document.id] == self._ids[document.id] == 1:
                place = self._by_id[document.id]
            if place is not None:
                places[place] = None
        return list(places)


def asked(arguments: Any) -> dict[str, Any]:
    """Return what a call was asked with as fields of its step: `query`, `arguments`, or none if it is not known.

    >>> asked('{"query": "return lamp"}'), asked({"kwargs": {"order": 7}}), asked(None)
    ({'query': 'return lamp'}, {'arguments': {'order': 7}}, {})
    """
    value = _inner_arguments(arguments)
    if isinstance(value, Mapping):
        named = {key: item for key, item in value.items() if key != CLASS}
        only = next(iter(named.items())) if len(named) == 1 else ("", None)
        is_query = only[0] in _QUERIES and isinstance(only[1], str) and only[1].strip()
        return {"query": only[1]} if is_query else {"arguments": named}
    if isinstance(value, list | tuple):
        return {"arguments": {"args": list(value)}}
    if value is None:
        return {}
    return {"query": str(value)} if str(value).strip() else {"arguments": {}}


def _inner_arguments(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        text = value.strip()
        with suppress(ValueError):
            value = value_of(text) if text[:1] in ("{", "[", '"') or text[-1:] == ")" else value
        return value if isinstance(value, str) or depth > _DEPTH_MAX else _inner_arguments(value, depth + 1)
    inner: Any = value
    if isinstance(value, Mapping) and value and value.keys() <= _PYTHON:  # of a function of Python
        places, named = value.get("args"), value.get("kwargs")
        inner = named if not places else places if not named else value
    if isinstance(inner, list | tuple) and len(inner) == 1:
        inner = inner[0]
    return value if inner is value or depth > _DEPTH_MAX else _inner_arguments(inner, depth + 1)


def error_kind(value: Any) -> str:
    """Return the kind of an error, and nothing of its message.

    >>> error_kind(TimeoutError()), error_kind("openai.RateLimitError"), error_kind({"isError": True}), error_kind(429)
    ('timeout', 'rate_limited', 'tool_error', 'rate_limited')
    >>> error_kind("ValueError: the order of Mrs Miller is unknown"), error_kind("Miller")
    ('value_error', 'tool_error')

    Args:
        value: exception, class, status, text or reply.
    """
    if isinstance(value, BaseException | type):
        value = value.__name__ if isinstance(value, type) else type(value).__name__
    text = _said(value)[:_ERROR_CHARS].strip()
    kind = next((kind for kind, pattern in _ERRORS.items() if pattern.search(text)), None)
    if kind is not None:
        return kind
    named = _CLASS.fullmatch(text) if _MARK.search(text) else None
    named = named or _NAMED_ERROR.match(text)
    name = None if named is None else step_name(named[1])
    return name if name is not None and name not in _NO_KINDS else "tool_error"


def _said(value: Any, depth: int = 0) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping) and depth < _DEPTH_MAX:
        return " ".join(filter(None, (_said(value.get(key), depth + 1) for key in _SAID)))
    if isinstance(value, list) and depth < _DEPTH_MAX:
        return " ".join(_said(item, depth + 1) for item in value[:_DEPTH_MAX])
    return ""
