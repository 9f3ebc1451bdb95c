"""The content of one span: its role, its question, documents and answer, by the table of dialects."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from itertools import takewhile
from operator import itemgetter
from typing import Any, Final, TypeVar

from ragtide_schemas.opaque import is_opaque
from ragtide_schemas.printable import printable

from ..shapes.calls import ToolCall, calls_in, last_results
from ..shapes.document_keys import TEXTS
from ..shapes.documents import Found, documents_of
from ..shapes.evidence import evidence_in, is_control
from ..shapes.literals import BrokenTextError, SeveralTextsError, UnreadableError, value_of
from ..shapes.messages import Message, all_texts, last_of, message_of, messages_of, results_by_call, tool_results_of
from ..shapes.replies import documents_in, is_error, reports_nothing, tool_content
from ..shapes.texts import ANSWER_KEYS, QUESTION_KEYS, Meaning, text_in
from .answered import Answered, answered_in, may_be_answered
from .attributes import (
    DECISIVE_KINDS,
    EVENTS,
    NO_LIST,
    OWN,
    PLACES,
    RESULT_EVENTS,
    ROLE_NAMES,
    ROLES,
    Flattened,
    first,
    flattened,
    group_by_prefix,
    is_hidden,
    role_by_words,
    visible,
    with_prefix,
)
from .conventions import (
    AGENT_OPERATIONS,
    CALL_WORDS,
    CONTENT_WORDS,
    CONVENTIONS,
    DOCUMENT_KEYS,
    ENVELOPED,
    ENVELOPES,
    ERROR_TYPE,
    FRAMEWORK_SESSIONS,
    GENAI,
    HAYSTACK,
    LLM_WORDS,
    MERGED_CALLS,
    METHODS,
    OPERATIONS,
    PREPARED_CALLS,
    RAG_WORDS,
    SERVED_MODEL,
    SETTINGS_OF_CALLS,
    THREAD_KEYS,
    TOOL_STATUS,
    TOOL_WORDS,
    WRITING_OPERATIONS,
    WRITING_WORDS,
    Role,
)
from .span import Span

_MESSAGE_KEYS: Final = ("messages", "choices", "contents", "candidates")
"""Keys of the messages in the request or reply of a model service."""
NUMBER_MAX: Final = 1e15
"""Largest number of tokens or dollars that is read: JSON has numbers that no float can hold."""


SEEN_CHARS: Final = 60
"""Characters of a value or a name in a message."""

BLANK: Final = "it is blank"
"""Why the reply of a model call has no text, if it is an empty text."""
CLOSING: Final = ("GeneratorExit", "CancelledError")
"""Exceptions of a stream whose reader goes away."""
STEERING: Final = (
    "GraphInterrupt",
    "NodeInterrupt",
    "ParentCommand",
    "WorkflowDone",
    "StopIteration",
    "StopAsyncIteration",
)
"""Exceptions by which frameworks leave a step that did its work: LangGraph, LlamaIndex."""
ACTION_INPUT: Final = "action input:"
"""Words of a prompt that teaches a model to ask for tools in its text."""
OUTPUTS: Final = frozenset(
    name for name, columns in PLACES.items() if any(column == "outputs" for column, _ in columns)
)
"""Attributes that may have the output of a span."""
STREAMS: Final = ("<generator object", "<async_generator object", "<generator>", "<async_generator>")
"""What Python prints of a stream."""
STREAM_CHARS: Final = 200
"""Characters of an output in which a stream is named."""
LEAVES_MAX: Final = 5_000
"""Most values in the input or output of a span that are looked at for a text."""

NAME_CHARS: Final = 20
"""Most characters of a text that is a name or a kind, and no content."""

OWN_CONTENT: Final = ("question", "response", "documents")
"""Attributes, after this beginning, that make a span an interaction of its own."""


_Read = TypeVar("_Read")
_Other = TypeVar("_Other")


def if_readable(read: Callable[[], _Read], otherwise: _Other) -> _Read | _Other:
    """Return what `read` finds in spans, or another value if a content of theirs cannot be read."""
    try:
        return read()
    except UnreadableError:
        return otherwise


def _has_text(read: Callable[[], str | None]) -> bool:
    try:
        return read() is not None
    except SeveralTextsError:
        return False
    except UnreadableError:
        return True


def plain_text(text: str) -> str:
    r"""Return a text without differences of case, of white space, and of what JSON escapes.

    >>> plain_text('When was it\\nbuilt, as \\"iron lady\\"? ')
    'when was it built, as "iron lady"?'
    """
    return " ".join(text.replace("\\n", " ").replace('\\"', '"').split()).casefold()


def after_thought(text: str) -> str | None:
    r"""Return the answer in a text of ReAct, in which thoughts stand before it; None if it asks for a tool.

    >>> after_thought("Thought: I know it.\nAnswer: In 1889."), after_thought("In 1889.")
    ('In 1889.', 'In 1889.')
    >>> after_thought("Thought: I need a tool.\nAction: search\nAction Input: {}")
    """
    start = text.lstrip()
    if not start.startswith(("Thought:", "Action:", "Final Answer:", "Answer:")):
        return text
    action, answer = start.find("Action:"), start.find("Answer:")
    if action >= 0 and not 0 <= answer < action:
        return None
    return start[answer + len("Answer:") :].strip() if answer >= 0 else text


def _leaves(value: Any, read: Callable[[str], Any]) -> Iterator[str]:
    stack, seen = [value], 0
    while stack and seen < LEAVES_MAX:
        at = stack.pop()
        seen += 1
        if isinstance(at, str):
            inner = if_readable(partial(read, at), None) if at[:1] in ("[", "{") else None
            if isinstance(inner, dict | list):
                stack.append(inner)
            elif at.strip():
                yield at
        elif isinstance(at, Mapping):
            stack.extend(at.values())
        elif isinstance(at, list | tuple):
            stack.extend(at)


def number_of(value: Any) -> float | None:
    """Return a value that is a number of tokens or dollars; None for another value, and for one that is too large."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= NUMBER_MAX
    return float(value) if known else None


class SpanReading:
    """The content of one span, read when it is asked for.

    Args:
        span: the span.
        retrieval_names: names of spans and tools that are retrievals, in lower case.
        action_names: names of tools whose results are no evidence, in lower case.
    """

    def __init__(
        self, span: Span, retrieval_names: frozenset[str] = frozenset(), action_names: frozenset[str] = frozenset()
    ) -> None:
        self.span = span
        self.left_out: Counter[str] = Counter()
        """What was left out of the contents on purpose, by name, such as `response.reasoning`."""
        self.is_run = False
        """Whether the messages of a model call are all that is known of a run of an agent."""
        self.is_beside = False
        """Whether the span is no search, and its result is evidence because its run has a search."""
        self.repeated_result: Any = None
        """The result of a tool whose span has none, as the messages of a later model call repeat it."""
        self._retrieval_names, self._action_names = retrieval_names, action_names
        self._events_cut = False
        self._read_once: dict[Any, Any] = {}
        self.attributes = self._read_events() if span.events else span.attributes
        """The attributes of the span, and the contents of its events by the names of attributes."""

    @cached_property
    def own(self) -> dict[str, Any]:
        """The attributes that begin with `ragtide.`, without this beginning."""
        return visible(self._groups.get(OWN, {}))

    @property
    def explicit_documents(self) -> list[Found]:
        """The documents in the attribute `ragtide.documents`."""
        name = f"{OWN}documents"
        documents = self._documents_in(self._spelled(name, self.own["documents"]))
        if documents is None:
            raise UnreadableError(f"{name} of {self.short_name!r} has no documents: give a JSON list of texts")
        return documents

    @cached_property
    def exception(self) -> str:
        """The name of the exception that ended the span; empty without one."""
        named = (event.attributes.get("exception.type") for event in self.span.events if event.name == "exception")
        return str(next(named, None) or "").rpartition(".")[2]

    @property
    def is_closed(self) -> bool:
        """Whether the reader of a stream closed it: what was written until then was shown."""
        return self.span.failed and self.exception in CLOSING

    @property
    def failed(self) -> bool:
        """Whether the work of the span failed: an exception that only steers a program is no failure."""
        return self.span.failed and self.exception not in (*CLOSING, *STEERING)

    @property
    def is_explicit(self) -> bool:
        """Whether an attribute such as `ragtide.question` makes the span an interaction of its own."""
        return not self.own.keys().isdisjoint(OWN_CONTENT)

    @cached_property
    def role(self) -> Role:
        """The role, by the attribute of a dialect, else by the documents, else by the name."""
        if self._groups and self._flattened("reranked").items:
            return "rerank"
        return "retrieval" if self._is_named(self._retrieval_names) else self._own_role

    @cached_property
    def _own_role(self) -> Role:
        named = self.attributes.keys() & ROLE_NAMES
        for name, roles in ROLES if named else ():
            kind = self.attributes[name] if name in named else None
            role = roles.get(kind.strip('"').lower()) if isinstance(kind, str) else None  # MLflow writes JSON
            if role == "retrieval":
                operation = first(self.attributes, OPERATIONS)
                writes = isinstance(operation, str) and operation.lower() in WRITING_OPERATIONS
                return "other" if writes else role
            if role is not None:
                return "other" if role == "llm" and self.span.name.endswith(PREPARED_CALLS) else role
        return "retrieval" if self._flattened("documents").items else self._role_by_name()

    def _role_by_name(self) -> Role:
        if any(isinstance(self.attributes.get(name), str) for name in DECISIVE_KINDS):
            return "other"
        component = self.attributes.get(HAYSTACK.kinds[0])
        if isinstance(component, str):
            return role_by_words(component, llm=LLM_WORDS)
        if self._first("input_messages") is not None and self._first("output_messages") is not None:
            return "llm"
        role = role_by_words(self.span.name) if self._first("outputs") is not None else "other"
        # A step that only has the name of a search is one if nothing below it retrieves or answers (`retrievals_of`).
        return "other" if role == "retrieval" else role

    def _is_named(self, names: frozenset[str]) -> bool:
        return bool(names) and not names.isdisjoint(map(str.lower, self.names))

    @cached_property
    def is_tool(self) -> bool:
        """Whether the span is the call of a tool, also of one that the settings name as a retrieval."""
        return self.role == "tool" or (self.role == "retrieval" and self._own_role == "tool")

    @property
    def is_control(self) -> bool:
        """Whether the tool only steers agents: it ends the work of one, or gives it to another."""
        return self.tool_name == MERGED_CALLS or is_control(self.called_name)

    @cached_property
    def is_action(self) -> bool:
        """Whether the settings name the tool as one whose results are no evidence."""
        return self._is_named(self._action_names)

    @cached_property
    def evidence(self) -> list[Found] | None:
        """The documents in the result of a tool, perhaps none; None if it is no evidence, such as `ok` of a booking."""
        if self.is_action or self.failed or self.is_error:
            return None
        documents = if_readable(lambda: self.documents, None)
        if documents is not None and (self.role == "retrieval" or (self.searches and not self.writes)):
            return documents
        # An envelope of a framework has words of its own, and no acknowledgement.
        said = tool_content(self.result)
        found = evidence_in(self.called_name, said)
        return found if found is None or not documents or said is self.result else documents

    @cached_property
    def arguments(self) -> Any:
        """What a tool was called with, as its span has it; None if it is not there."""
        if self.inputs is not None:
            return self.inputs
        messages = next(self._contents("input_messages"), None)  # an event of Strands
        last = messages[-1] if isinstance(messages, list) and messages else None
        return last.get("content") if isinstance(last, dict) else None

    @property
    def error_sources(self) -> list[Any]:
        """What says how a tool failed: exception, kind, message, result; an empty list if it did not fail."""
        events = [event.attributes for event in self.span.events if event.name == "exception"]
        kind = self.attributes.get(ERROR_TYPE)
        steers = isinstance(kind, str) and kind.rpartition(".")[2] in (*CLOSING, *STEERING)
        says_error = self.attributes.get(TOOL_STATUS) == "error" or (kind is not None and not steers)
        if not (self.failed or says_error or self.is_error):
            return []
        messages = (attributes.get("exception.message") for attributes in events)
        sources = [self.exception, None if steers else kind, *messages, all_texts(self.result)]
        return [source for source in sources if source] or [True]

    @cached_property
    def given_calls(self) -> list[ToolCall]:
        """The calls of tools among the messages that went into a model call, after the last question."""
        calls = if_readable(lambda: calls_in(self._raw_messages("input_messages")), [])
        return [call._replace(documents=None) if call.name.lower() in self._action_names else call for call in calls]

    @property
    def shows_searches(self) -> bool:
        """Whether a model call that answers was given the results of searches by tools in its messages."""

        def shows() -> bool:
            # Of an earlier question are the calls before the last text of the user.
            return self.is_final and bool(self.tool_results) and any(map(self._is_search, self.given_calls))

        return if_readable(shows, False)

    def _is_search(self, call: ToolCall) -> bool:
        named = call.name.lower() in self._retrieval_names or role_by_words(call.name, tools=TOOL_WORDS) == "retrieval"
        found = call.documents or ()
        have_keys = bool(found) and all(document.id is not None or document.score is not None for document in found)
        return have_keys or (named and (call.error is not None or call.documents is not None))

    @cached_property
    def asked_calls(self) -> list[ToolCall]:
        """The calls of tools that the reply of a model call asks for."""
        return if_readable(lambda: calls_in(self._raw_messages("output_messages")), [])

    @property
    def result(self) -> Any:
        """The result of a tool, on its span or in a later message; None if it is not known."""
        return if_readable(lambda: self.output, None) if self.has_output else self.repeated_result

    @property
    def called_name(self) -> str:
        """The name of the tool, without what spans write before and after it."""
        name = self.tool_name
        return _bare(name).removesuffix(next(filter(name.endswith, METHODS), "")) or name

    @cached_property
    def switch(self) -> str:
        """The remedy when content is not captured, of the preferred dialect that marks the span; empty without one."""
        attributes = [f"{name}={str(value)[:SEEN_CHARS]}" for name, value in self.attributes.items()]
        rows = (row for row in CONVENTIONS if row.switch and any(text.startswith(row.marks) for text in attributes))
        return next((row.switch for row in rows), "")

    @property
    def hides(self) -> bool:
        """Whether a word stands for a content of the span that its sender hides."""
        return any(isinstance(value, str) and is_hidden(value.strip() or "-") for value in self.attributes.values())

    @property
    def wordless(self) -> str | None:
        """Why the reply of a model call has no text, as far as its messages can be read; None for another span."""
        messages = if_readable(lambda: self._messages("output_messages"), [])
        if self.role != "llm" or not messages:
            return None
        if messages[-1].calls_tools:
            return "it asks for a tool"
        is_blank = not any(message.text.strip() for message in messages)
        return ("it has only reasoning" if self.left_out["response.reasoning"] else BLANK) if is_blank else None

    def seen(self, *columns: str) -> str | None:
        """Return where the span has a content of one of the columns, and how it begins; None if it has none.

        Without columns it is a text whose name indicates a content, and is that of no dialect.
        """
        rows = [row for which in columns for row in self._columns.get(which, ())]
        for name, value in rows if columns else self.attributes.items():
            is_strange = isinstance(value, str) and name not in PLACES and len(value) > NAME_CHARS
            if not columns and not (is_strange and any(word in name.rpartition(".")[2] for word in CONTENT_WORDS)):
                continue
            shows = value
            if name.endswith("."):
                shows = {key: text for key, text in visible(value).items() if key.rpartition(".")[2] in TEXTS}
            if shows and shows != "null":
                begin = printable((shows if isinstance(shows, str) else repr(shows))[:SEEN_CHARS])
                return f"{name} of the span {self.short_name!r} (got {begin!r})"
        return None

    @cached_property
    def documents(self) -> list[Found] | None:
        """The documents that the span returned; None if the span does not have them.

        Raises:
            UnreadableError: documents are missing or cut, or could be read in two ways.
        """
        self._check_whole()
        if self.role == "llm" or (self.role == "tool" and (self.failed or self.is_error)):
            return self._answered.documents if self.role == "llm" else None
        if self._own_documents is not None:
            return self._own_documents
        if self.answers_itself:
            return self._answered.documents or []
        if self.has_output:
            return self._documents_in(self.output)
        if self.is_silent or any(value == 0 for _, value in self._plain("found")):
            return []
        return None if self.repeated_result is None else self._documents_in(self.repeated_result)

    @cached_property
    def _own_documents(self) -> list[Found] | None:
        flat = self._flattened("reranked" if self.role == "rerank" else "documents")
        if flat.gap:
            raise self._broken("a document is missing")
        if not flat.items:
            value = self.value("documents")
            return None if value is None else self._documents_in(value)
        documents = self._documents_in(flat.items)
        own = (item.get("document") for item in self._flattened("documents").items)
        if not documents or all(isinstance(document, dict) and document.get("id") for document in own):
            return documents
        # The output may have the same documents with their ids.
        listed = if_readable(lambda: documents_of(self.output), None) or []
        if [document.text for document in listed] != [document.text for document in documents]:
            return documents
        return [old._replace(id=new.id or old.id) for old, new in zip(documents, listed, strict=True)]

    @property
    def wider_documents(self) -> list[Found]:
        """The documents with a text of their metadata that has theirs, such as the sentences around it."""
        documents: list[Found] = []
        for item, document in zip(self._flattened("documents").items, self._own_documents or (), strict=False):
            fields = item.get("document", item) if isinstance(item, dict) else None
            metadata = fields.get("metadata") if isinstance(fields, dict) else None
            with suppress(UnreadableError):
                metadata = _spelled(metadata)
            text = (document.text or "").strip()
            if not text or not isinstance(metadata, dict):
                continue
            texts = (value for value in metadata.values() if isinstance(value, str))
            wider = (value for value in texts if len(value.strip()) > len(text) and text in value)
            documents.extend(document._replace(text=value) for value in wider)
        return documents

    @cached_property
    def _answered(self) -> Answered:
        replies = self._plain("outputs", "output_messages")
        return answered_in([self._spelled(*row) for row in replies if may_be_answered(row[1])])

    @property
    def hidden_documents(self) -> str | None:
        """The remedy if the reply of a service shows that it retrieved, without the documents."""
        return if_readable(lambda: self._answered.remedy, None)

    @property
    def has_output(self) -> bool:
        """Whether an attribute has the output of the span, cut or not."""
        return self._first("outputs") is not None or if_readable(lambda: self._event_output is not None, True)

    @cached_property
    def gives_nothing(self) -> bool:
        """Whether the output of a step is an empty list, or says that nothing was found."""
        return self.has_output and if_readable(lambda: reports_nothing(self.output), False)

    @property
    def is_error(self) -> bool:
        """Whether the reply of a tool is an error."""
        return is_error(self.result)

    @property
    def is_silent(self) -> bool:
        """Whether a retrieval has a visible input and no output, in a dialect that so says that nothing was found."""
        return self.role == "retrieval" and any(
            not self.attributes.keys().isdisjoint(row.kinds)
            and first(self.attributes, row.inputs) is not None
            and not any(map(self.attributes.get, row.outputs))
            and self._first("documents") is None
            and not self._flattened("documents").items
            for row in CONVENTIONS
            if row.no_list_is_empty
        )

    @cached_property
    def answers_itself(self) -> bool:
        """Whether a retrieval has the answer as its output, beside its documents or by its name.

        A text that repeats the documents is no answer, and an output that cannot be read is none.
        """
        if self.role != "retrieval" or not isinstance(self._first("outputs"), str):
            return False
        named = f"{self.span.name} {self.attributes.get(GENAI.kinds[0], '')}".lower()
        if SERVED_MODEL in self.attributes or any(word in named for word in RAG_WORDS):
            return if_readable(lambda: self.text_of([self.output], "answer") is not None, True)
        output, documents = if_readable(lambda: (self.output, self._own_documents), (None, None))
        return isinstance(output, str) and not all((document.text or "") in output for document in documents or ())

    @cached_property
    def rerank_inputs(self) -> list[Found]:
        """The documents that went into a reranking, as far as the span has them."""
        return documents_of(self._flattened("rerank_inputs").items) or []

    @property
    def is_search(self) -> bool:
        """Whether the span's name indicates a search, and the span has an output."""
        return role_by_words(self.span.name) == "retrieval" and self._first("outputs") is not None

    @property
    def is_agent(self) -> bool:
        """Whether the messages of the span are those of the application."""
        operation = self.attributes.get(GENAI.kinds[0])
        return isinstance(operation, str) and operation in AGENT_OPERATIONS

    @property
    def is_of_application(self) -> bool:
        """Whether the span is a step of the application, and no call of a model, a tool or a search."""
        return self.role == "other" or self.is_agent

    @property
    def searches(self) -> bool:
        """Whether the name of the span or of its tool indicates a search."""
        return any(role_by_words(name, tools=TOOL_WORDS) == "retrieval" for name in self.names)

    @property
    def writes(self) -> bool:
        """Whether the name of the span or of its tool indicates that it writes or changes something."""
        return any(word in _bare(name).lower() for name in self.names for word in WRITING_WORDS)

    @property
    def short_name(self) -> str:
        """The name of the span for a message."""
        return printable(self.span.name[:SEEN_CHARS])

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the span, and that of its tool."""
        return (self.span.name, *(str(value) for _, value in self._plain("tool_name")))

    @property
    def tool_name(self) -> str:
        """The name of the tool, or else of the span."""
        return self.names[-1]

    @cached_property
    def has_question(self) -> bool:
        """Whether the span has a question in its input; a cut content counts, and several texts do not."""
        return _has_text(lambda: self.question(QUESTION_KEYS))

    @cached_property
    def has_question_and_answer(self) -> bool:
        """Whether the span has a question in its input and an answer in its output, perhaps an empty text."""
        is_there = self.output_is_empty or self.answers_empty or self.shows_stream
        return self.has_question and (is_there or _has_text(lambda: self.answer(ANSWER_KEYS)))

    @cached_property
    def answers_empty(self) -> bool:
        """Whether the output of a step has an empty text where an answer is: under its keys, or as its message."""
        value = if_readable(lambda: self.value("outputs"), None) if self.is_of_application else None
        answers = [value[key] for key in ANSWER_KEYS if key in value] if isinstance(value, dict) else []
        messages = if_readable(lambda: self._messages("output_messages"), []) if self.is_of_application else []
        says = [message.text.strip() or message.calls_tools for message in messages]
        is_blank = bool(messages) and messages[-1].author == "assistant" and not any((*says, self.left_out.total()))
        return all(text == "" for text in answers) if answers else is_blank

    @property
    def output_is_empty(self) -> bool:
        """Whether the output of the span is an empty text, and no content that is hidden."""
        if self._first("outputs") is not None:
            return if_readable(lambda: self.output == "", False)  # in JSON (MLflow), or in an envelope
        return any(self.attributes.get(name) == "" for name in OUTPUTS)

    @property
    def shows_stream(self) -> bool:
        """Whether the output of the span is a stream that nobody had read, and no text."""
        value = self._first("outputs")
        return isinstance(value, str) and any(name in value[:STREAM_CHARS] for name in STREAMS)

    @property
    def replies_empty(self) -> bool:
        """Whether a model call shows what went in, and that an empty text came out."""
        is_blank = self.wordless == BLANK or (self.output_is_empty and self.wordless is None)
        return is_blank and not self.hides and any(self.given_texts)

    @cached_property
    def given_texts(self) -> list[str]:
        """The plain texts that went into a model call or a retrieval."""
        columns = self._columns
        given = [message.text for message in if_readable(lambda: self.input_messages, [])]
        rest = () if any(given) else columns.get("inputs", ())
        rows = (*columns.get("query", ()), *columns.get("prompt_variables", ()), *rest)
        return [
            plain_text(text) for text in (*given, *(text for _, value in rows for text in self._leaves(value))) if text
        ]

    @cached_property
    def replied_texts(self) -> list[str]:
        """The plain texts that a model call returned, and what it asked tools."""
        values = [self._columns[which] for which in ("output_messages", "outputs") if which in self._columns]
        return [plain_text(text) for _, value in next(iter(values), ()) for text in self._leaves(value)]

    @cached_property
    def plain_question(self) -> str:
        """The question in plain form; empty if the span has none that can be read."""
        return plain_text(if_readable(lambda: self.question(QUESTION_KEYS), None) or "")

    @cached_property
    def plain_answer(self) -> str:
        """The answer in plain form; empty if the span has none that can be read."""
        return plain_text(if_readable(lambda: self.answer(ANSWER_KEYS), None) or "")

    @cached_property
    def plain_documents(self) -> list[str]:
        """The texts of the documents in plain form, as far as they can be read."""
        return [plain_text(document.text or "") for document in if_readable(lambda: self.documents, None) or ()]

    @property
    def last_asked(self) -> str | None:
        """The last text of the user in a model call, as far as it can be read."""
        return if_readable(lambda: self.last_question, None)

    @cached_property
    def query(self) -> str | None:
        """The query of a retrieval."""
        return self.text_of([self.value("query")], "question") or self.question(QUESTION_KEYS)

    @cached_property
    def inputs(self) -> Any:
        """The input of the span, a JSON text as its value; None without one."""
        return self.value("inputs")

    def question(self, keys: tuple[str, ...]) -> str | None:
        """Return the question in the input of the span, or the last of the user in the messages of an agent."""
        return self._once(("question", keys), lambda: self._question(keys))

    def _question(self, keys: tuple[str, ...]) -> str | None:
        self._check_whole()
        question = self.text_of([self.inputs], "question", keys)
        if question is not None or not self.is_of_application:
            return question
        # The message may be the input of a chain as JSON, without a text if the input is streamed (LangChain).
        return self.text_of([_spelled(last_of(self.input_messages, "user"))], "question", keys)

    def answer(self, keys: tuple[str, ...]) -> str | None:
        """Return the answer in the output of the span, or the last of the assistant in the messages of an agent."""
        return self._once(("answer", keys), lambda: self._answer(keys))

    def _answer(self, keys: tuple[str, ...]) -> str | None:
        self._check_whole()
        answer = self.text_of([self.output], "answer", keys)
        if answer is not None or not self.is_of_application:
            return answer
        return self.text_of(self._contents("output_messages"), "answer")

    @property
    def prints_object(self) -> bool:
        """Whether the output of the span is only the name of an object, or a printed object that is cut."""
        value = self._first("outputs")
        return isinstance(value, str) and is_opaque(value)

    @cached_property
    def last_question(self) -> str | None:
        """The last text of the user among the messages of a model call."""
        self._check_whole()
        return last_of(self.input_messages, "user")

    @cached_property
    def generated(self) -> str | None:
        """The text that a model call returned; None for a call that only asks for tools."""
        text = self._written
        return after_thought(text) if text is not None and self._is_taught_actions else text

    @cached_property
    def _is_taught_actions(self) -> bool:
        return any(ACTION_INPUT in text for text in self.given_texts)

    @cached_property
    def _written(self) -> str | None:
        self._check_whole()
        replies = list(self._contents("output_messages"))
        text = self.text_of(replies, "answer")
        if text is not None and not any(_has_several(reply, text) for reply in replies):
            return text
        whole = None if self._has_calls else self.text_of([self.output], "answer")
        if whole is None and text is not None:
            raise UnreadableError(f"the span {self.short_name!r} has several answers: send the one that was shown")
        return whole

    @cached_property
    def calls_tools(self) -> bool:
        """Whether the reply of a model call asks for tools, in its text, too."""
        return self._has_calls or (self._is_taught_actions and self.generated is None and self._written is not None)

    @cached_property
    def _has_calls(self) -> bool:
        return any(message.calls_tools for message in self._messages("output_messages"))

    @property
    def input_messages(self) -> list[Message]:
        """The messages that went into a model call, oldest first."""
        return self._messages("input_messages")

    @property
    def is_final(self) -> bool:
        """Whether the reply of a model call ends with a text, and asks for nothing more."""
        messages = self._messages("output_messages")
        return self.generated is not None and not (messages and messages[-1].calls_tools)

    @property
    def is_blank(self) -> bool:
        """Whether a model call has no text that went in or came out."""
        return all(self._first(which) is None for which in ("input_messages", "output_messages", "outputs"))

    @property
    def last_results(self) -> list[tuple[str, Any]]:
        """Name and result of the calls of tools with which the messages end that went into a model call."""
        return last_results(self._raw_messages("input_messages"))

    @property
    def results_by_call(self) -> dict[str, Any]:
        """The results of tools in the messages that went into a model call, by the id of the call."""
        return results_by_call(self._raw_messages("input_messages"))

    @cached_property
    def prompt_documents(self) -> list[Found] | None:
        """The documents in the variables of the prompt: a text, or several."""
        value = first(self._variables, DOCUMENT_KEYS)
        return documents_of(_spelled(value)) if value is not None else None

    @cached_property
    def prompt_question(self) -> str | None:
        """The question in the variables of the prompt."""
        return text_in({key: self._variables[key] for key in QUESTION_KEYS if key in self._variables}, "question")

    @cached_property
    def tool_results(self) -> list[Any]:
        """The results of tools that went into a model call after the question, oldest first."""
        return [_spelled(result) for result in tool_results_of(self._raw_messages("input_messages"))]

    @property
    def prompts(self) -> tuple[str, ...]:
        """The texts that went into a model call and may have the documents: of the system, then of the user."""
        texts = (last_of(self.input_messages, "system"), last_of(self.input_messages, "user"))
        return tuple(text for text in (*texts, *self.completed) if text)

    @cached_property
    def prompt(self) -> list[Message]:
        """All texts that went into a model call, with the results of tools, by author; a plain text is the user's."""
        texts = if_readable(lambda: self._prompt, None)
        if texts is None:  # a cut text is still worth a search
            rows = [row for which in ("input_messages", "prompts", "inputs") for row in self._columns.get(which, ())]
            texts = [Message("user", all_texts(value), False) for _, value in rows]
        return [message for message in texts if message.text.strip()]

    @property
    def all_inputs(self) -> str:
        """All texts of the attributes of a model call that are not what it returned."""
        outputs = {name for which in ("outputs", "output_messages") for name, _ in self._columns.get(which, ())}
        names = [name for name in {**self.attributes, **self._groups} if not name.startswith(tuple(outputs))]
        return all_texts(
            [visible(self._groups[name]) if name in self._groups else self.attributes[name] for name in names]
        )

    @property
    def states_prompt(self) -> bool:
        """Whether a model call has its prompt: messages or a text, and not only an input, which may be less."""
        return bool(if_readable(lambda: self.input_messages, None) or self.completed)

    @property
    def states_request(self) -> bool:
        """Whether a model call has parameters, tokens or an id of its request, as an instrumentation writes them."""
        columns = ("input_tokens", "output_tokens", "response_id", "parameters")
        return any(which in self._columns for which in columns)

    @property
    def prompt_is_cut(self) -> bool:
        """Whether the prompt of a model call is not whole."""
        dropped = self.span.dropped_attributes > 0 or self._events_cut
        return dropped or not if_readable(lambda: (self._prompt, self.inputs), ())

    @property
    def _prompt(self) -> list[Message]:
        return self._once("prompt", self._whole_prompt)

    def _whole_prompt(self) -> list[Message]:
        messages = [Message("system", all_texts(value), False) for value in self._contents("instructions")]
        raw = self._raw_messages("input_messages")
        for given in self._contents("input_messages"):
            if isinstance(given, Mapping):
                aside = {key: value for key, value in given.items() if value is not raw}
                messages.append(Message("system", all_texts(aside), False))
            items = raw if raw is not None else given
            while isinstance(items, list) and len(items) == 1 and isinstance(items[0], list):
                items = items[0]
            for item in items if isinstance(items, list) else [items]:
                message = message_of(item)
                author = "tool" if tool_results_of([item]) else message.author if message else "user"
                messages.append(Message(author, all_texts(item), False))
            break
        messages += [Message("user", text, False) for text in self.completed]
        if not messages or any(message.author == "tool" and not message.text.strip() for message in messages):
            messages.append(
                Message("tool" if messages else "user", all_texts(self.inputs), False)
            )  # results of tools, too
        return messages

    @cached_property
    def called_with(self) -> list[str]:
        """The texts that a model call gave to tools, such as a structured answer."""
        return [text for value in self._contents("output_messages") if (text := all_texts(value))]

    @property
    def completed(self) -> list[str]:
        """The prompts of a model call that completes a text, and has no messages."""
        items = [item.get("prompt") if isinstance(item, dict) else item for item in self._flattened("prompts").items]
        texts = [item.get("text") if isinstance(item, dict) else item for item in items]
        for row in self._plain("prompts"):
            value = if_readable(partial(self._spelled, *row), row[1])  # a prompt need not be JSON
            texts += value if isinstance(value, list) else [value]
        return [text for text in texts if isinstance(text, str)]

    @property
    def own_session(self) -> str | None:
        """The session that the application set on the span, and not a framework from its own thread."""
        metadata = if_readable(lambda: self._spelled("metadata", self.attributes.get("metadata")), None)
        threads = [metadata.get(key) for key in THREAD_KEYS] if isinstance(metadata, Mapping) else []
        rows = (row for row in self._columns.get("session", ()) if row[0] not in FRAMEWORK_SESSIONS)
        return next((str(value) for _, value in rows if isinstance(value, str | int) and value not in threads), None)

    def text(self, which: str) -> str | None:
        """Return an attribute that is a short text, such as the model, by its column in the table."""
        value = self._first(which)
        return str(value) if isinstance(value, str | int) and str(value).strip() else None

    def number(self, which: str, *keys: str) -> float | None:
        """Return an attribute that is a number, or the number under one of the keys of a JSON object."""
        if which not in self._columns:
            return None
        value = if_readable(lambda: self.value(which), None)
        if isinstance(value, Mapping):
            value = next((value[key] for key in keys if isinstance(value.get(key), int | float)), None)
        return number_of(value)

    def value(self, which: str) -> Any:
        """Return an attribute by its column in the table, a JSON text as its value; None without one.

        Raises:
            UnreadableError: the value is cut.
        """
        for name, value in self._columns.get(which, ()):
            if not name.endswith("."):
                return self._spelled(name, value)
        return None

    def _once(self, key: Any, read: Callable[[], _Read]) -> _Read:
        if key not in self._read_once:
            try:
                self._read_once[key] = read()
            except UnreadableError as error:
                self._read_once[key] = error
        content: _Read | UnreadableError = self._read_once[key]
        if isinstance(content, UnreadableError):
            raise content.with_traceback(None)
        return content

    def _spelled(self, name: str, value: Any) -> Any:
        if not isinstance(value, str | Mapping):
            return value
        return self._once(name, lambda: self._named(name, lambda _: self._unwrapped(name, value)))

    def _unwrapped(self, name: str, value: Any) -> Any:
        found = _spelled(value, self._value_of)
        return _unwrapped(found) if name in ENVELOPES else found

    def _value_of(self, text: str) -> Any:
        return self._once(("value", text), partial(value_of, text))

    def _leaves(self, value: Any) -> Iterator[str]:
        return _leaves(value, self._value_of)

    def _check_whole(self) -> None:
        if self.span.dropped_attributes:
            raise self._broken(f"{self.span.dropped_attributes} attributes were dropped")
        if self._events_cut:
            raise self._broken("the content of an event is cut")

    def _broken(self, what: str) -> BrokenTextError:
        return BrokenTextError(f"{what} in the span {self.short_name!r}")

    @cached_property
    def output(self) -> Any:
        """The output of the span, a JSON text as its value; None without one."""
        return self.value("outputs") if self._first("outputs") is not None else self._event_output

    @cached_property
    def _event_output(self) -> Any:
        if self.role not in ("tool", "retrieval", "rerank"):
            return None
        for value in self._contents("output_messages"):
            items = value if isinstance(value, list) else [value]
            results = [result for item in items if isinstance(item, dict) for result in tool_results_of([item])]
            contents = [item["content"] for item in items if isinstance(item, dict) and "content" in item]
            if results or contents:
                return (results or contents)[0]
        return None

    @cached_property
    def _variables(self) -> dict[str, Any]:
        variables: dict[str, Any] = {}
        for name, value in self._columns.get("prompt_variables", ()):
            fields = visible(value) if isinstance(value, dict) else self._spelled(name, value)
            variables.update(fields if isinstance(fields, Mapping) else {})
        return variables

    def _messages(self, which: str) -> list[Message]:
        return self._once(("messages", which), lambda: self._conversation(which))[1]

    def _raw_messages(self, which: str) -> Any:
        return self._once(("messages", which), lambda: self._conversation(which))[0]

    def _conversation(self, which: str) -> tuple[Any, list[Message]]:
        for given in self._message_sources(which):
            inner = [given[key] for key in _MESSAGE_KEYS if given.get(key)] if isinstance(given, Mapping) else []
            for value in (given, *inner):
                if messages := messages_of(value):
                    return value, messages
        return None, []

    def _message_sources(self, which: str) -> Iterator[Any]:
        yield from self._contents(which)
        if self.role == "llm" and which == "input_messages":
            value = if_readable(lambda: self.inputs, None)
            yield from [value] if isinstance(value, Mapping) else ()
        elif self.role == "llm":
            value = if_readable(lambda: self.output, None)
            is_asking = (
                value
                and isinstance(value, list)
                and all(isinstance(call, Mapping) and "function" in call for call in value)
            )
            yield from [[{"role": "assistant", "tool_calls": value}]] if is_asking else ()  # CrewAI

    def _contents(self, which: str) -> Iterator[Any]:
        for name, value in self._columns.get(which, ()):
            flat = name.endswith(".")
            spelled = [item for item in flattened(value).items if item != {}] if flat else self._spelled(name, value)
            yield _without_pieces(spelled) if which == "output_messages" else spelled

    def _read_events(self) -> dict[str, Any]:
        contents: dict[str, Any] = {}
        messages: dict[str, list[Any]] = {}
        results = 0
        for event in self.span.events:
            if event.name in RESULT_EVENTS and (fields := with_prefix(event.attributes, f"{event.name}.")):
                contents |= {f"{event.name}.{results}.{key}": self._event_value(text) for key, text in fields.items()}
                results += 1
            for row in EVENTS.get(event.name, ()):
                content = first(event.attributes, row.keys)
                if content is not None and row.author is None:
                    contents.setdefault(row.attribute, content)
                elif content is not None and row.author is not None:
                    finish = {"finish_reason": reason} if (reason := event.attributes.get("finish_reason")) else {}
                    messages.setdefault(row.attribute, []).append(finish | self._event_message(content, row.author))
        return {**messages, **contents, **self.span.attributes}

    def _event_message(self, given: Any, author: str) -> Any:
        value = self._event_value(given)
        if isinstance(value, dict) and not value.keys().isdisjoint(("role", "message", "tool_calls")):
            return {"role": author, **value}
        # Strands: a list of blocks, which is empty if the model said nothing.
        is_blocks = isinstance(value, list) and all(isinstance(part, dict) for part in value)
        return {"role": author, "content": value if is_blocks else given}

    def _event_value(self, given: Any) -> Any:
        try:
            return value_of(given) if isinstance(given, str) else given
        except BrokenTextError:
            self._events_cut = True
            return ""

    def text_of(self, values: Iterable[Any], meaning: Meaning, keys: tuple[str, ...] | None = None) -> str | None:
        """Return the text in the first of the values that has one."""

        def read(left_out: Counter[str]) -> str | None:
            texts = (text_in(value, meaning, keys, left_out) for value in values if value is not None)
            return next((text for text in texts if text is not None), None)

        return self._named("response" if meaning == "answer" else meaning, read)

    def _documents_in(self, value: Any) -> list[Found] | None:
        return self._named("documents", partial(documents_in, value))

    def _named(self, content: str, read: Callable[[Counter[str]], _Read]) -> _Read:
        left_out: Counter[str] = Counter()
        try:
            return read(left_out)
        except UnreadableError as error:
            named = f"the span {self.short_name!r}"
            if named in str(error):  # with its attribute
                raise
            raise type(error)(f"{content} of {named} cannot be read: {error}") from None
        finally:
            if left_out:
                self.left_out |= Counter({f"{content}.{kind}": number for kind, number in left_out.items()})

    @cached_property
    def _columns(self) -> dict[str, list[tuple[str, Any]]]:
        columns: dict[str, list[tuple[int, str, Any]]] = {}
        for name, value in {**self.attributes, **self._groups}.items():
            if name in PLACES and not is_hidden(value):
                for column, place in PLACES[name]:
                    columns.setdefault(column, []).append((place, name, value))
        return {column: [row[1:] for row in sorted(rows, key=itemgetter(0))] for column, rows in columns.items()}

    @cached_property
    def _groups(self) -> dict[str, dict[str, Any]]:
        return group_by_prefix(self.attributes)

    def _first(self, which: str) -> Any:
        for name, value in self._columns.get(which, ()):
            if not name.endswith("."):
                return value
        return None

    def _plain(self, *columns: str) -> Iterator[tuple[str, Any]]:
        return (row for which in columns for row in self._columns.get(which, ()) if not row[0].endswith("."))

    def _flattened(self, which: str) -> Flattened:
        if not self._groups:
            return NO_LIST
        lists = (flattened(value) for name, value in self._columns.get(which, ()) if name.endswith("."))
        return self._once(("flattened", which), lambda: next((flat for flat in lists if flat.items), NO_LIST))


def _unwrapped(value: Any) -> Any:
    inner = value.keys() - SETTINGS_OF_CALLS if isinstance(value, Mapping) else ()
    return value[next(iter(inner))] if len(inner) == 1 and len(inner) < len(value) and inner <= ENVELOPED else value


def _spelled(value: Any, read: Callable[[str], Any] = value_of) -> Any:
    if not isinstance(value, str) or value == "null":
        return None if value == "null" else value
    if not (value.startswith('["') and value.endswith('"]')):
        return read(value)
    with suppress(BrokenTextError):
        found = read(value)
        if not isinstance(found, str):
            return found
    texts = value[2:-2].split('", "')
    if any(text.count('"') % 2 for text in texts):
        raise UnreadableError(
            "the texts of a list are not escaped, and a quote in one hides where it ends: let the application send JSON"
        )
    return texts


def _bare(name: str) -> str:
    start = next((len(word) for word in CALL_WORDS if name[:32].lower().startswith(word)), 0)
    return name[start:]


def _without_pieces(reply: Any) -> Any:
    """Return the messages of a reply without the pieces of a stream, if the last message is the whole (Google ADK)."""
    if not isinstance(reply, list) or not all(isinstance(message, dict) for message in reply):
        return reply
    *pieces, whole = reply or [{}]
    if not whole.get("finish_reason") or any(piece.get("finish_reason") != "" for piece in pieces):
        return reply
    text = all_texts(whole)
    return [whole] if all(all_texts(piece) in text for piece in pieces) else reply


def _has_several(value: Any, answer: str) -> bool:
    messages = reversed(messages_of(value) if isinstance(value, list) else [])
    last = takewhile(lambda message: message.author == "assistant" and not message.calls_tools, messages)
    texts = [text for message in last if (text := message.text.strip())]
    return texts[:1] == [answer] and not all(answer.startswith(text) for text in texts)
