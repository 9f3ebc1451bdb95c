"""The documents in the reply of a service that retrieves and answers in one call, by the table of such services."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ..shapes.documents import Found
from ..shapes.literals import BrokenTextError, value_of
from ..shapes.replies import reply_documents

DEPTH_MAX: Final = 20
"""Levels of a reply that are searched."""


class AnsweredShape(NamedTuple):
    """Where the reply of a service that retrieves and answers has its documents."""

    keys: tuple[str, ...]
    """Keys of the list of documents, in an object anywhere in the reply."""
    kind: str = ""
    """Value of `type` in the object with the list; empty for any object."""
    inner: tuple[str, ...] = ()
    """Keys of the document in an item of the list; an item without one has no text."""
    switch: str = ""
    """The remedy when the service leaves its documents out of the reply."""


ANSWERED_SHAPES: Final = (
    # file search of OpenAI's Responses API (openai 3.57)
    AnsweredShape(
        keys=("results",),
        kind="file_search_call",
        switch='include=["file_search_call.results"] in the call of the Responses API',
    ),
    # Bedrock RetrieveAndGenerate, agents of Bedrock (boto3 1.44, OpenInference 0.1.45)
    AnsweredShape(keys=("retrievedReferences",)),
    # Vertex AI Search and RAG Engine: grounding (google-genai 2.34)
    AnsweredShape(keys=("groundingChunks", "grounding_chunks"), inner=("retrievedContext", "retrieved_context")),
)
"""Services that retrieve inside a model call: their documents stand in its reply."""
_MARKS: Final = tuple(shape.kind or key for shape in ANSWERED_SHAPES for key in shape.keys)
_IDS: Final = ("file_id", "uri", "documentName")


class Answered(NamedTuple):
    """What replies have of the documents of such a service."""

    documents: list[Found] | None = None
    """Without repeats; None if no service retrieved, and empty if it found nothing."""
    remedy: str | None = None
    """What to do if a reply indicates a retrieval and leaves its documents out."""


def may_be_answered(value: Any) -> bool:
    """Whether a text or a list of texts has the key of such documents, so that it is worth reading."""
    if isinstance(value, str):
        return any(mark in value for mark in _MARKS)
    return isinstance(value, list | dict)


def answered_in(replies: Iterable[Any]) -> Answered:
    """Return the documents in the first of the replies that has them, and the first remedy."""
    first: list[Found] | None = None
    remedy = None
    for reply in replies:
        lists = list(_lists(reply))
        remedy = remedy or next((shape.switch for shape, listed in lists if listed is None and shape.switch), None)
        documents = [_document(shape, item) for shape, listed in lists if isinstance(listed, list) for item in listed]
        known = {(document.text, document.id): document for document in documents if document is not None}
        if first is None and (known or any(listed == [] for _, listed in lists)):
            first = list(known.values())
    return Answered(first, remedy)


def _lists(value: Any) -> Iterator[tuple[AnsweredShape, Any]]:
    stack = [(value, 0)]
    while stack:
        at, depth = stack.pop()
        if isinstance(at, str) and at[:1] in ("{", "[") and may_be_answered(at):
            with suppress(BrokenTextError):
                at = value_of(at)
        if depth > DEPTH_MAX:
            continue
        inner: Iterable[Any] = at if isinstance(at, list) else ()
        if isinstance(at, Mapping):
            shapes = (
                shape
                for shape in ANSWERED_SHAPES
                if (at.get("type") == shape.kind if shape.kind else any(key in at for key in shape.keys))
            )
            shape = next(shapes, None)
            inner = at.values() if shape is None else ()
            if shape is not None:
                yield shape, next((at[key] for key in shape.keys if key in at), None)
        stack.extend((item, depth + 1) for item in reversed(list(inner)))


def _document(shape: AnsweredShape, item: Any) -> Found | None:
    if not isinstance(item, Mapping):
        return None
    inners = (item[key] for key in shape.inner if isinstance(item.get(key), Mapping))
    inner = next(inners, None) if shape.inner else item
    documents = reply_documents([dict(inner)]) if inner else None
    if not inner or not documents or documents[0].text is None:
        return None
    ids = (inner[key] for key in _IDS if isinstance(inner.get(key), str))
    return documents[0] if documents[0].id is not None else documents[0]._replace(id=next(ids, None))
