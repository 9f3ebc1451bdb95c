"""The content of one span: its role, its question, documents and answer, by the table of dialects."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from ..shapes.documents import Found, documents_of
from ..shapes.literals import BrokenTextError, value_of
from ..shapes.messages import Message, last_of, messages_of, tool_results_of
from ..shapes.texts import ANSWER_KEYS, QUESTION_KEYS, answer_in, question_in
from .attributes import Flattened, first, flattened, hidden, shown, under
from .columns import COLUMNS, DECISIVE_KINDS, OWN, PREFIXES, ROLES, role_by_words
from .conventions import CONVENTIONS, DOCUMENT_KEYS, HAYSTACK, LLM_WORDS, TOOL_WORDS, Convention, Role
from .span import Span

QUERY_RESULT: Final = "db.query.result"
"""Name of the event that the clients of vector stores write for a found document (OpenLLMetry)."""
TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
"""Attributes with the name of a tool."""
NUMBER_MAX: Final = 1e15
"""Largest number of tokens or dollars that is read: JSON has numbers that no float can hold."""


OWN_CONTENT: Final = ("question", "response", "documents")
"""Attributes, after this beginning, that make a span an interaction of its own."""


class TruncatedError(Exception):
    """Attributes of a span are missing or cut, so its content is not whole."""


class SpanReading:
    """The content of one span, read when it is asked for.

    Args:
        span: the span.
        retrieval_names: names of spans and tools that are retrievals, in lower case.
    """

    def __init__(self, span: Span, retrieval_names: frozenset[str] = frozenset()) -> None:
        self.span = span
        self._retrieval_names = retrieval_names
        self._attributes = span.attributes

    @cached_property
    def own(self) -> dict[str, Any]:
        """The attributes that begin with `ragtide.`, without this beginning."""
        return shown(self._groups.get(OWN, {}))

    @cached_property
    def own_resource(self) -> dict[str, Any]:
        """The attributes of the process that begin so."""
        return under(self.span.resource, OWN)

    def own_value(self, key: str) -> Any:
        """Return an explicit attribute, a JSON text as its value."""
        return _spelled(self.own[key])

    @property
    def is_explicit(self) -> bool:
        """Whether an attribute such as `ragtide.question` makes the span an interaction of its own."""
        return not self.own.keys().isdisjoint(OWN_CONTENT)

    @cached_property
    def role(self) -> Role:
        """The role, by the attribute of a dialect, else by the documents, else by the name."""
        if self._flattened("reranked").items:
            return "rerank"
        if self._retrieval_names and not self._retrieval_names.isdisjoint(map(str.lower, self._names)):
            return "retrieval"
        for name, roles in ROLES:
            kind = self._attributes.get(name)
            role = roles.get(kind.lower()) if isinstance(kind, str) else None
            if role is not None:
                return role
        if self._flattened("documents").items or any(event.name == QUERY_RESULT for event in self.span.events):
            return "retrieval"
        return self._role_by_name()

    def _role_by_name(self) -> Role:
        if any(isinstance(self._attributes.get(name), str) for name in DECISIVE_KINDS):
            return "other"
        component = self._attributes.get(HAYSTACK.kinds[0])
        if isinstance(component, str):
            return role_by_words(component, llm=LLM_WORDS)
        if self._first("input_messages") is not None and self._first("output_messages") is not None:
            return "llm"
        has_content = self._first("outputs") is not None or self._first("documents") is not None
        return role_by_words(self.span.name) if has_content else "other"

    @cached_property
    def convention(self) -> Convention | None:
        """The preferred dialect of which the span has attributes."""
        for row in CONVENTIONS:
            if any(name.startswith(row.marks) or name in row.kinds for name in self._attributes):
                return row
        return None

    @cached_property
    def documents(self) -> list[Found] | None:
        """The documents that the span returned; None if the span does not tell them.

        Raises:
            TruncatedError: documents are missing or cut.
        """
        self._whole()
        flat = self._flattened("reranked" if self.role == "rerank" else "documents")
        if flat.gap:
            raise TruncatedError("a document is missing among its attributes")
        if flat.items:
            return self._with_ids(documents_of(flat.items))
        events = [event.attributes for event in self.span.events if event.name == QUERY_RESULT]
        if events:
            return documents_of([under(attributes, f"{QUERY_RESULT}.") for attributes in events])
        given = self._value("documents")
        found = documents_of(given) if given is not None else None
        return found if found is not None else documents_of(self._output)

    @cached_property
    def rerank_inputs(self) -> list[Found]:
        """The documents that went into a reranking, as far as the span tells them."""
        return documents_of(self._flattened("rerank_inputs").items) or []

    @property
    def is_search(self) -> bool:
        """Whether the name of the span tells a search, and the span has an output."""
        return role_by_words(self.span.name) == "retrieval" and self._first("outputs") is not None

    @property
    def searches(self) -> bool:
        """Whether the name of the span or of its tool tells a search."""
        return any(role_by_words(name, tools=TOOL_WORDS) == "retrieval" for name in self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        """The name of the span, and that of its tool."""
        return (self.span.name, *(str(self._attributes[key]) for key in TOOL_NAMES if key in self._attributes))

    @cached_property
    def tells_both(self) -> bool:
        """Whether the span has a question in its input and an answer in its output; a cut content counts."""
        try:
            return self.question(QUESTION_KEYS) is not None and self.answer(ANSWER_KEYS) is not None
        except TruncatedError:
            return True

    @cached_property
    def query(self) -> str | None:
        """The query of a retrieval."""
        given = self._value("query")
        return question_in(given, QUESTION_KEYS) if given is not None else self.question(QUESTION_KEYS)

    @cached_property
    def inputs(self) -> Any:
        """The input of the span, a JSON text as its value; None without one."""
        return self._value("inputs")

    def question(self, keys: tuple[str, ...]) -> str | None:
        """Return the question in the input of the span, or the last of the user in the messages of an agent."""
        self._whole()
        found = question_in(self.inputs, keys)
        if found is not None or self.role != "other":
            return found
        # The message may be the input of a chain as JSON, without a text if the input is streamed (LangChain).
        text = last_of(self.input_messages, "user")
        return None if text is None else question_in(_spelled(text), keys)

    def answer(self, keys: tuple[str, ...]) -> str | None:
        """Return the answer in the output of the span."""
        self._whole()
        return answer_in(self._output, keys)

    @cached_property
    def last_question(self) -> str | None:
        """The last text of the user among the messages of a model call."""
        self._whole()
        return last_of(self.input_messages, "user")

    @cached_property
    def generated(self) -> str | None:
        """The text that a model call returned; None for a call that only asks for tools."""
        self._whole()
        found = last_of(self._messages("output_messages"), "assistant") or self._chosen()
        if found is None and not self.calls_tools:
            found = answer_in(self._output, ANSWER_KEYS)
        return found

    @cached_property
    def calls_tools(self) -> bool:
        """Whether the reply of a model call asks for tools."""
        return any(message.calls_tools for message in self._messages("output_messages"))

    @cached_property
    def input_messages(self) -> list[Message]:
        """The messages that went into a model call, oldest first."""
        return self._messages("input_messages") or [
            Message("user", text, False)
            for event in self.span.events
            if event.name == "gen_ai.user.message" and isinstance(text := event.attributes.get("content"), str)
        ]

    @cached_property
    def prompt_documents(self) -> list[Found] | None:
        """The documents in the variables of the prompt: a text, or several."""
        found = first(self._variables, DOCUMENT_KEYS)
        return documents_of(_spelled(found)) if found is not None else None

    @cached_property
    def prompt_question(self) -> str | None:
        """The question in the variables of the prompt."""
        return question_in(
            {key: self._variables[key] for key in QUESTION_KEYS if key in self._variables}, QUESTION_KEYS
        )

    @cached_property
    def tool_results(self) -> list[Any]:
        """The results of tools that went into a model call after the question, oldest first."""
        return [_spelled(found) for found in tool_results_of(self._raw_messages("input_messages"))]

    @property
    def prompts(self) -> tuple[str, ...]:
        """The texts that went into a model call and may have the documents: of the system, then of the user."""
        found = (last_of(self.input_messages, "system"), last_of(self.input_messages, "user"))
        return tuple(text for text in found if text)

    def text(self, which: str) -> str | None:
        """Return an attribute that is a short text, such as the model, by its column in the table."""
        found = self._first(which)
        return str(found) if isinstance(found, str | int) and str(found).strip() else None

    def number(self, which: str, *keys: str) -> float | None:
        """Return an attribute that is a number, or the number under one of the keys of a JSON object."""
        found = self._value(which)
        if isinstance(found, Mapping):
            found = next((found[key] for key in keys if isinstance(found.get(key), int | float)), None)
        is_number = isinstance(found, int | float) and not isinstance(found, bool) and abs(found) <= NUMBER_MAX
        return float(found) if is_number else None

    def mapping(self, which: str) -> Mapping[str, Any] | None:
        """Return an attribute that is a JSON object, by its column in the table.

        Raises:
            TruncatedError: the object is cut.
        """
        found = self._value(which)
        return found if isinstance(found, Mapping) else None

    def _whole(self) -> None:
        if self.span.dropped_attributes:
            raise TruncatedError(f"{self.span.dropped_attributes} of its attributes were dropped")

    @cached_property
    def _output(self) -> Any:
        return self._value("outputs")

    @cached_property
    def _variables(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for row in CONVENTIONS:
            for name in row.prompt_variables:
                if name.endswith("."):
                    found.update(shown(self._groups.get(name, {})))
                elif isinstance(self._attributes.get(name), str):
                    given = _spelled(self._attributes[name])
                    found.update(given if isinstance(given, Mapping) else {})
        return found

    def _messages(self, which: str) -> list[Message]:
        return next((found for given in self._given(which) if (found := _messages_in(given))), [])

    def _raw_messages(self, which: str) -> Any:
        for given in self._given(which):
            if _messages_in(given):
                inner = given.get("messages") if isinstance(given, Mapping) else None
                return given if inner is None else inner
        return None

    def _given(self, which: str) -> Iterator[Any]:
        """Yield the values of the attributes of a column, the preferred first."""
        for name in COLUMNS[which]:
            if name.endswith("."):
                if name in self._groups:
                    yield flattened(self._groups[name]).items
            elif name in self._attributes and not hidden(self._attributes[name]):
                yield _spelled(self._attributes[name])

    def _chosen(self) -> str | None:
        """Return the text in the events `gen_ai.choice`, which older instrumentations write."""
        for event in reversed(self.span.events):
            given = event.attributes.get("message") or event.attributes.get("content")
            if event.name in ("gen_ai.choice", "gen_ai.assistant.message") and isinstance(given, str):
                found = answer_in(_spelled(given), ANSWER_KEYS)
                if found:
                    return found
        return None

    def _with_ids(self, found: list[Found] | None) -> list[Found] | None:
        """Return the documents with the ids of the output, where the attributes have none (LangChain)."""
        if not found or all(document.id for document in found):
            return found
        try:
            listed = documents_of(self._output) or []
        except TruncatedError:
            return found
        if [document.text for document in listed] != [document.text for document in found]:
            return found
        return [old._replace(id=old.id or new.id) for old, new in zip(found, listed, strict=True)]

    def _value(self, which: str) -> Any:
        given = self._first(which)
        return _spelled(given) if given is not None else None

    def _first(self, which: str) -> Any:
        return first(self._attributes, COLUMNS[which])

    @cached_property
    def _groups(self) -> dict[str, dict[str, Any]]:
        """The attributes with flattened names and those of ragtide, by the beginnings of their names."""
        return PREFIXES.grouped(self._attributes)

    def _flattened(self, which: str) -> Flattened:
        for name in COLUMNS[which] if self._groups else ():
            if name in self._groups:
                found = flattened(self._groups[name])
                if found.items:
                    return found
        return Flattened([], gap=False)


def _spelled(value: Any) -> Any:
    try:
        return value_of(value) if isinstance(value, str) else value
    except BrokenTextError as error:
        raise TruncatedError(str(error)) from None


def _messages_in(value: Any) -> list[Message]:
    found = messages_of(value)
    if not found and isinstance(value, Mapping):
        found = next((inner for key in ("messages", "choices") if (inner := messages_of(value.get(key)))), [])
    return found
