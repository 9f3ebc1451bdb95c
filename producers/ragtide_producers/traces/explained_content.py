"""Where the question, the documents and the answer of an interaction are from, and the prompts beside them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ragtide_runtime.settings.ingest import IngestSettings

from ..shapes.documents import Found
from ..shapes.messages import Message
from ..shapes.texts import ANSWER_KEYS, QUESTION_KEYS
from .content import answer_of, documents_in, question_of
from .given import calls_behind
from .grouping import SpanGroup
from .reading import if_readable
from .tree import Node

PROMPTS_MAX: Final = 20
"""Most prompts of an interaction that are shown, the last ones."""
MARKED_MAX: Final = 100
"""Most documents whose places in the prompts are marked."""
MARKED_CHARS: Final = 12
"""Fewest characters of a document whose place is marked."""


@dataclass(frozen=True, slots=True)
class ExplainedDocument:
    """A document that retrievals returned."""

    document_id: str | None
    text: str
    """As the generator got it; of one that it did not get, as it was returned."""
    spans: list[str]
    """Names of the retrievals that returned it."""
    is_cut: bool = False
    """Whether the prompt has only a part of it."""


@dataclass(frozen=True, slots=True)
class ExplainedPrompt:
    """What a model call got that led to the answer."""

    span: str
    """Name of the model call."""
    span_id: str
    messages: list[dict[str, str]]
    """`author` and `text` of each message. In place of a document that stands there as it is: `[document 1]`."""


@dataclass(frozen=True, slots=True)
class ExplainedContent:
    """The content of an interaction, and where it is from, as far as the spans can be read."""

    question: str | None = None
    question_from: str = ""
    """The place of the question, such as `input of RunnableSequence`; empty if it is not known."""
    response: str | None = None
    response_from: str = ""
    documents_from: str = ""
    """`prompt` if the documents are those in the prompts, `retrieval` if the spans have none; empty if an attribute has
    them, or they are not known."""
    documents: list[ExplainedDocument] = field(default_factory=list)
    """In the order of the prompts."""
    not_given: list[ExplainedDocument] = field(default_factory=list)
    """What was returned, and stands in no prompt; empty if the spans have no prompt."""
    prompts: list[ExplainedPrompt] = field(default_factory=list)
    """Of the calls that led to the answer; the last ones, without those with which a later one begins."""
    calls: list[str] = field(default_factory=list)
    """Ids of the spans of these calls."""


def explained_content(group: SpanGroup, settings: IngestSettings) -> ExplainedContent:
    """Return the content of an interaction with its places, also of one that cannot be used."""
    question = if_readable(lambda: question_of(group, (*settings.question_keys, *QUESTION_KEYS)), None)
    response = if_readable(lambda: answer_of(group, (*settings.answer_keys, *ANSWER_KEYS)), None)
    documents = if_readable(lambda: documents_in(group, question, response), None)
    given = (documents and documents.documents) or []
    retrieved = (documents and documents.retrieved) or given
    returned: dict[str | None, Found] = {}
    names: dict[str | None, dict[str, None]] = {}
    for retrieval in group.retrievals:
        for document in if_readable(partial(getattr, retrieval, "documents"), None) or ():
            returned.setdefault(document.text, document)
            names.setdefault(document.text, {})[retrieval.short_name] = None
    left = list(returned.values()) if documents is None else documents.not_given or ()
    calls = if_readable(lambda: calls_behind(group, question, response), [])
    prompts = [(call, call.prompt) for call in calls[-PROMPTS_MAX:]]
    return ExplainedContent(
        question,
        _place(question, _question_places(group, settings)),
        response,
        _place(response, _answer_places(group, settings)),
        (documents and documents.source) or "",
        [
            ExplainedDocument(document.id, document.text or "", [*names.get(full.text, ())], document.text != full.text)
            for document, full in zip(given, retrieved, strict=True)
        ],
        [ExplainedDocument(document.id, document.text or "", [*names.get(document.text, ())]) for document in left],
        [
            ExplainedPrompt(call.short_name, call.span.span_id, [_marked(message, given) for message in prompt])
            for place, (call, prompt) in enumerate(prompts)
            if not any(later[: len(prompt)] == prompt for _, later in prompts[place + 1 :])
        ],
        [call.span.span_id for call in calls],
    )


_Place = tuple[str, Node, Callable[[], str | None]]


def _place(text: str | None, places: Iterable[_Place]) -> str:
    if text is None:
        return ""
    names = (f"{what} of {node.short_name}" for what, node, read in places if if_readable(read, None) == text)
    return next(names, "")


def _question_places(group: SpanGroup, settings: IngestSettings) -> Iterable[_Place]:
    anchor, keys = group.anchor, (*settings.question_keys, *QUESTION_KEYS)
    yield "ragtide.question", anchor, lambda: anchor.text_of([anchor.own.get("question")], "question")
    yield "input", anchor, lambda: anchor.question(keys)
    for call in (*((group.asked_by,) if group.asked_by is not None else ()), *group.calls):
        yield "prompt variables", call, partial(getattr, call, "prompt_question")
        yield "last message of the user", call, partial(getattr, call, "last_question")
        yield "message of the user", call, partial(getattr, call, "last_asked")
    for retrieval in group.retrievals:
        yield "query", retrieval, partial(getattr, retrieval, "query")


def _answer_places(group: SpanGroup, settings: IngestSettings) -> Iterable[_Place]:
    anchor, keys = group.anchor, (*settings.answer_keys, *ANSWER_KEYS)
    yield "ragtide.response", anchor, lambda: anchor.text_of([anchor.own.get("response")], "answer")
    yield "output", anchor, lambda: anchor.answer(keys)
    for call in reversed(group.calls):
        yield "reply", call, partial(getattr, call, "generated")


def _marked(message: Message, documents: Sequence[Found]) -> dict[str, str]:
    text = message.text
    for number, document in enumerate(documents[:MARKED_MAX], 1):
        if document.text is not None and len(document.text) >= MARKED_CHARS:
            text = text.replace(document.text, f"[document {number}]")
    return {"author": message.author, "text": text}
