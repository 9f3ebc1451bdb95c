"""Interactions from fields that programs give: one reader for the SDK, HTTP and the bridge.

Question, documents, response and reference answer may have any form that the normalizer knows: a message, a reply of a
model service, content parts, chunks of a stream, documents of a framework, or objects of these.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from ragtide_schemas import InvalidEntryError, RagInteraction, Reason, RetrievedDocument
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.plain_values import LeftOut, count_left_out, fields_of, unfit

from .shapes.documents import Found, documents_in
from .shapes.parts import medium_of
from .shapes.texts import Meaning, UnreadableError, text_in

TEXTS: Final[Mapping[str, Meaning]] = {"question": "question", "response": "answer", "reference_answer": "reference"}
"""What the text of each field is."""
_MAY_SPELL: Final = re.compile(r"\s*(?:[\[{(\"']|[A-Za-z_][\w.]*[\[(]|\w{1,8}:[ \[{\"]|\S{40})")
"""Beginning of a text that may spell a value, a stream or a medium; other texts are taken as they stand."""
_MAY_BE_MEDIUM: Final = re.compile(r"\s*\S{40}")
_DOCUMENT_FIELDS: Final = frozenset(RetrievedDocument.model_fields)


def interaction_of(fields: Mapping[str, Any]) -> RagInteraction:
    """Return the interaction with these fields; `left_out` of it has what was left out.

    Args:
        fields: of the interaction, by their names. Texts take no time.

    Raises:
        InvalidEntryError: the fields are no interaction; the message names field and remedy.
    """
    left_out = LeftOut()
    read: dict[str, Any] = {}
    for name, meaning in TEXTS.items():
        value = fields.get(name)
        if value is not None and (not isinstance(value, str) or _MAY_SPELL.match(value)):
            read[name] = _text(name, value, meaning, left_out)
    documents = fields.get("documents")
    if documents is not None and not _are_plain(documents):
        read["documents"] = _documents(documents, left_out)
    return RagInteraction.from_fields({**fields, **read} if read else dict(fields)).with_left_out(left_out)


def _text(name: str, value: Any, meaning: Meaning, left_out: LeftOut) -> Any:
    found: Counter[str] = Counter()
    try:
        text = text_in(value, meaning, left_out=found)
    except UnreadableError as error:
        raise InvalidEntryError(Reason.INVALID, f"{name} cannot be read: {_remedy(value, str(error))}") from None
    if text is None:
        if isinstance(value, str | int | float | bytes):
            return value
        raise InvalidEntryError(Reason.INVALID, f"{name} has no text: {_remedy(value, 'give its text')}")
    _count(name, found, left_out)
    return text


def _documents(value: Any, left_out: LeftOut) -> Any:
    found: Counter[str] = Counter()
    try:
        documents = documents_in(value, found)
    except UnreadableError as error:
        raise InvalidEntryError(Reason.INVALID, f"documents cannot be read: {_remedy(value, str(error))}") from None
    if documents is None:
        remedy = _remedy(value, "give a list of texts, or of objects with text, best first")
        raise InvalidEntryError(Reason.INVALID, f"documents has no documents that can be read: {remedy}")
    if any(document.text is None for document in documents):
        raise InvalidEntryError(Reason.INVALID, "documents has ids and no texts: give the text of each document")
    _count("documents", found, left_out)
    # A document that has the fields of the schema keeps its metadata.
    given = value if isinstance(value, list) and len(value) == len(documents) else [None] * len(documents)
    return [item if _is_plain(item) else _fields(document) for item, document in zip(given, documents, strict=True)]


def _fields(document: Found) -> dict[str, Any]:
    named = document.id if document.id and len(document.id) <= NAME_MAX_CHARS else None
    fields = {"text": document.text, "id": named, "score": document.score}
    return {name: value for name, value in fields.items() if value is not None}


def _count(name: str, found: Counter[str], left_out: LeftOut) -> None:
    for kind, number in found.items():
        count_left_out(left_out, f"{name}.{kind}", number)


def _remedy(value: Any, otherwise: str) -> str:
    """Return what an object is that has no fields, such as a generator, with the remedy; or the given words."""
    known = isinstance(value, str | bytes | int | float | list | tuple | set) or fields_of(value) is not None
    return otherwise if known else f"it {unfit(value)}"


def _are_plain(documents: Any) -> bool:
    """Whether documents are a list of texts, and of objects that have the fields of the schema."""
    if type(documents) is not list and type(documents) is not tuple:
        return False
    return all(
        not _MAY_SPELL.match(item) and bool(item) and not item.isspace() if isinstance(item, str) else _is_plain(item)
        for item in documents
    )


def _is_plain(item: Any) -> bool:
    if isinstance(item, RetrievedDocument):
        return True
    text = item.get("text") if isinstance(item, dict) and item.keys() <= _DOCUMENT_FIELDS else None
    return isinstance(text, str) and not (_MAY_BE_MEDIUM.match(text) and medium_of(text) is not None)
