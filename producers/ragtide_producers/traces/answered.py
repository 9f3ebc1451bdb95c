"""The documents in the reply of a service that retrieves and answers in one call, by the table of such services."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..shapes.documents import Found
from ..shapes.literals import BrokenTextError, value_of
from ..shapes.replies import reply_documents
from .conventions import ANSWERED_SHAPES, AnsweredShape

DEPTH_MAX: Final = 20
"""Levels of a reply that are searched."""
_MARKS: Final = tuple(shape.kind or key for shape in ANSWERED_SHAPES for key in shape.keys)


def may_be_answered(value: Any) -> bool:
    """Whether a text or a list of texts has the key of such documents, so that it is worth reading."""
    if isinstance(value, str):
        return any(mark in value for mark in _MARKS)
    return isinstance(value, list | dict)


def answered_documents(reply: Any) -> list[Found] | None:
    """Return the documents in a reply, without repeats; None if the service did not retrieve.

    An empty list means that it found nothing.
    """
    found: list[Found] = []
    states_documents = False
    for shape, listed in _lists(reply):
        if not isinstance(listed, list):
            continue
        documents = [_document(shape, item) for item in listed]
        known = [document for document in documents if document is not None]
        states_documents = states_documents or bool(known) or not listed
        found.extend(known)
    return list({(document.text, document.id): document for document in found}.values()) if states_documents else None


def hidden_documents(reply: Any) -> str | None:
    """Return the remedy if the reply indicates a retrieval and leaves its documents out."""
    return next((shape.switch for shape, listed in _lists(reply) if listed is None and shape.switch), None)


def _lists(value: Any) -> Iterator[tuple[AnsweredShape, Any]]:
    """Yield the lists of documents in a reply with the shapes that mark them, in their order."""
    stack = [(value, 0)]
    while stack:
        at, depth = stack.pop()
        if isinstance(at, str):
            at = _value(at)
        if depth > DEPTH_MAX:
            continue
        if isinstance(at, list):
            stack.extend((item, depth + 1) for item in reversed(at))
        elif isinstance(at, Mapping):
            shape = next((known for known in ANSWERED_SHAPES if _fits(known, at)), None)
            if shape is not None:
                yield shape, next((at[key] for key in shape.keys if key in at), None)
            else:
                stack.extend((item, depth + 1) for item in reversed(list(at.values())))


def _value(text: str) -> Any:
    """Return the value of a text inside a reply that is JSON with such documents; None for another text."""
    if text[:1] not in ("{", "[") or not may_be_answered(text):
        return None
    try:
        return value_of(text)
    except BrokenTextError:
        return None


def _fits(shape: AnsweredShape, value: Mapping[str, Any]) -> bool:
    return value.get("type") == shape.kind if shape.kind else any(key in value for key in shape.keys)


def _document(shape: AnsweredShape, item: Any) -> Found | None:
    if not isinstance(item, Mapping):
        return None
    inner = next((item[key] for key in shape.inner if isinstance(item.get(key), Mapping)), None)
    if shape.inner and inner is None:
        return None
    found = reply_documents([dict(inner or item)])
    document = found[0] if found else None
    if document is None or document.text is None:
        return None
    ids = (key for key in ("file_id", "uri", "documentName") if isinstance((inner or item).get(key), str))
    return (
        document if document.id is not None else document._replace(id=next(((inner or item)[key] for key in ids), None))
    )
