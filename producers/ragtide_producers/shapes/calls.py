"""Calls of tools in a conversation, and as steps of an interaction: one record for traces, transcripts and rows.

Sources: OpenAI (chat, Responses), Anthropic, Gemini, Bedrock Converse, OpenTelemetry GenAI, LangChain, Pydantic AI,
Vercel AI SDK.
"""

import re
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from ragtide_schemas.limits import ROUNDS_MAX, STEPS_MAX
from ragtide_schemas.plain_values import LeftOut, count_left_out
from ragtide_schemas.retrieval_steps import STEP_NAMES_MAX, step_name

from .documents import Found
from .evidence import evidence_in, is_control, is_final
from .literals import CLASS, value_of
from .messages import CONTENT_KEYS, Author, Message, holder_of, message_of
from .parts import text_of_content
from .replies import is_error
from .tool_parts import (
    NEW_STEP,
    NO_RESULT,
    AskedCall,
    CallResult,
    calls_beside,
    kind_of_item,
    only_text,
    result_message,
    tool_parts_in,
)

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


def calls_in(items: Any, action_names: Collection[str] = ()) -> list[ToolCall]:
    """Return the calls after the last question in a conversation that something follows, with their documents.

    Calls that one message asks for are of one round, and so are calls that stand beside each other before a result. The
    n-th call with an id has the n-th result with it; a result without an id belongs to the first call of its name, else
    to the first call, of its round. A call that is repeated with its id is one call. A result without a call counts as
    a call, and a call without a result has the error `no_result`.

    Args:
        items: messages or items, oldest first, as plain values.
        action_names: names of tools whose results are no evidence.
    """
    return [with_evidence(call, action_names) for call in run_in(items).calls]


def last_results(items: Any) -> list[tuple[str, Any]]:
    """Return name and result of the calls with which a conversation ends, in the order of the calls."""
    pieces: list[_Piece] = []
    is_asked = False
    for item in reversed(items if isinstance(items, list) else []):
        own = _pieces_of(item)
        asks = any(isinstance(piece, AskedCall) for piece in own)
        if is_asked and not asks:
            break
        if any(isinstance(piece, Message) and piece.author == "assistant" for piece in own) and not asks:
            return []
        is_asked, pieces = asks, own + pieces
    calls, _ = _paired(pieces)
    return [(call.name, call.result) for call in calls if is_asked and call.result is not NO_RESULT]


class AskedRun(NamedTuple):
    """What a conversation has of its last question."""

    before: list[Message]
    """Messages before the question."""
    question: str | None
    calls: list[ToolCall]
    answer: str | None
    """None if no text follows the last call."""


def run_in(items: Any) -> AskedRun:
    """Return the last question in a conversation that something follows, its calls as `calls_in`, and the answer."""
    if isinstance(items, list) and len(items) == 1 and isinstance(items[0], list):
        items = items[0]  # LangChain: a batch with one conversation
    pieces = [piece for item in items for piece in _pieces_of(item)] if isinstance(items, list) else []
    end = len(pieces)
    while end and (isinstance(pieces[end - 1], _RoundStart) or _is_of_user(pieces[end - 1])):
        end -= 1
    last = next((place for place in range(end - 1, -1, -1) if _is_of_user(pieces[place])), -1)
    first = last
    while first > 0 and (isinstance(pieces[first - 1], _RoundStart) or _is_of_user(pieces[first - 1])):
        first -= 1
    asked_by_user = [piece for piece in pieces[max(first, 0) : last + 1] if isinstance(piece, Message)]
    before = [piece for piece in pieces[: max(first, 0)] if isinstance(piece, Message)]
    calls, answer = _paired(pieces[last + 1 :])
    return AskedRun(before, "\n".join(message.text.strip() for message in asked_by_user) or None, calls, answer)


class _RoundStart(NamedTuple):
    """The beginning of a message, or of a round in it."""

    has_rounds: bool


_Piece = Message | AskedCall | CallResult | _RoundStart


def _is_of_user(piece: _Piece) -> bool:
    return isinstance(piece, Message) and piece.author == "user"


def _pieces_of(item: Any) -> list[_Piece]:
    if not isinstance(item, Mapping | list):
        return []
    message = message_of(item)
    if message is None:
        return list(tool_parts_in(item)) if isinstance(item, Mapping) else []
    holder = holder_of(item) if isinstance(item, Mapping) else {}
    if message.author == "system":
        return []
    content = next((holder[key] for key in CONTENT_KEYS if isinstance(holder.get(key), list) and holder[key]), ())
    parts = [list(tool_parts_in(part)) if isinstance(part, Mapping) else [] for part in content]
    beside = list(calls_beside(holder))
    if message.author == "tool" and not any(parts):
        return [result_message(holder)]
    rounds = [isinstance(part, Mapping) and kind_of_item(part) == NEW_STEP for part in content]
    pieces: list[_Piece] = [_RoundStart(any(rounds))]
    if not any(parts) and not any(rounds):
        texts = [message.text] if message.text.strip() else []
        pieces += [Message(message.author, text, bool(beside)) for text in texts]
    else:
        pieces += _pieces_in(content, parts, rounds, message.author, {call.call_id for call in beside})
    return [*pieces, *beside]


def _pieces_in(
    content: Sequence[Any],
    parts: Sequence[Sequence[AskedCall | CallResult]],
    rounds: Sequence[bool],
    author: Author,
    known: Set[str | None],
) -> Iterator[_Piece]:
    has_results = any(isinstance(piece, CallResult) for pieces in parts for piece in pieces)
    run: list[Any] = []
    for part, pieces, begins in zip((*content, None), (*parts, [_END]), (*rounds, False), strict=True):
        if not pieces and not begins:
            run.append(part)
            continue
        text = text_of_content(run, "" if author == "assistant" else "\n")
        run = []
        # What stands beside results in the name of the user is the program's.
        if text.strip() and not (author == "user" and has_results):
            yield Message(author, text, isinstance(next(iter(pieces), None), AskedCall) or bool(known and part is None))
        if begins:
            yield _RoundStart(has_rounds=True)
        yield from (
            piece
            for piece in pieces
            if piece is not _END and not (isinstance(piece, AskedCall) and known & {piece.call_id, None})
        )


_END: Final = CallResult(None, None, None, is_error=False)


def _paired(pieces: Sequence[_Piece]) -> tuple[list[ToolCall], str | None]:
    pairs = _CallPairs()
    answer: str | None = None
    for piece in pieces:
        if isinstance(piece, Message):
            answer = piece.text if piece.author == "assistant" and not piece.calls_tools else answer
        elif isinstance(piece, _RoundStart):
            pairs.begin(piece)
        elif isinstance(piece, AskedCall) and is_control(piece.name):
            answer = _final_text(piece) if is_final(piece.name) else None
            pairs.controls.add(piece.call_id or piece.name)
        elif isinstance(piece, AskedCall):
            answer = None
            pairs.ask(piece)
        elif not pairs.controls & {piece.call_id or piece.name}:
            answer = None
            pairs.answer(piece)
    return pairs.whole(), answer


def _final_text(call: AskedCall) -> str | None:
    fields = asked(call.arguments)
    values = fields.get("arguments", fields)
    only = next(iter(values.values())) if len(values) == 1 else None
    return only if isinstance(only, str) else to_json(values).decode() if values else None


class _CallPairs:
    """Calls with their results, in one pass."""

    def __init__(self) -> None:
        self.controls: set[str | None] = set()
        self._calls: list[ToolCall] = []
        self._answered: dict[int, None] = {}
        self._with_id: dict[str | None, deque[int]] = {}
        self._of_round: dict[str | None, deque[int]] = {}
        self._by_id: dict[str, int] = {}
        self._seen: set[tuple[str, str, str]] = set()
        self._round = 0
        self._begins = True
        self._has_rounds = False

    def begin(self, mark: _RoundStart) -> None:
        """Take the beginning of a message, or of a round in it: the next call is of a new round."""
        self._begins, self._has_rounds = True, mark.has_rounds

    def ask(self, call: AskedCall) -> None:
        """Take a call."""
        if call.call_id is not None:
            key = call.call_id, call.name, str(call.arguments)
            if key in self._seen:
                return
            self._seen.add(key)
        if self._begins:
            self._round += 1
            self._begins = False
            self._of_round = {}
        place = len(self._calls)
        self._calls.append(ToolCall(call.name, call.arguments, call.call_id, self._round))
        if call.call_id is not None:
            self._by_id[call.call_id] = place
            self._with_id.setdefault(call.call_id, deque()).append(place)
        else:
            for name in (call.name, None):
                self._of_round.setdefault(name, deque()).append(place)

    def answer(self, result: CallResult) -> None:
        """Take a result."""
        result = result._replace(result=only_text(result.result))
        self._begins = self._begins or not self._has_rounds
        if result.call_id in self._by_id:
            place = self._next(self._with_id, result.call_id)
        else:
            place = self._next(self._of_round, result.name) if result.name is not None else None
            if place is None and result.call_id is None:
                place = self._next(self._of_round, None)
        known = self._by_id.get(result.call_id or "")
        if place is None and known is not None:
            before = self._calls[known]
            if before.result == result.result:
                return
            place = len(self._calls)
            self._calls.append(before._replace(result=NO_RESULT, round=max(self._round, 1)))
        elif place is None:
            place = len(self._calls)
            self._calls.append(ToolCall(result.name or "tool", None, result.call_id, None))
        self._answered[place] = None
        error = error_kind(result.result) if result.is_error else None
        self._calls[place] = self._calls[place]._replace(result=result.result, error=error)

    def _next(self, waiting: Mapping[str | None, deque[int]], key: str | None) -> int | None:
        places = waiting.get(key, deque())
        while places:
            place = places.popleft()
            if place not in self._answered:
                return place
        return None

    def whole(self) -> list[ToolCall]:
        """Return the calls, in which those without a result failed."""
        return [
            call if place in self._answered else call._replace(error="no_result")
            for place, call in enumerate(self._calls)
        ]


def with_evidence(call: ToolCall, action_names: Collection[str] = ()) -> ToolCall:
    """Return a call with the documents in its result, or with the kind of its error.

    Args:
        call: with its result.
        action_names: names of tools whose results are no evidence.
    """
    if call.error is not None or call.result is NO_RESULT:
        return call
    if is_error(call.result):
        return call._replace(error=error_kind(call.result))
    return call._replace(documents=evidence_in(call.name, call.result, action_names))


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
