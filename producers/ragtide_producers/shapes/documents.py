"""Retrieved documents, in the shapes in which instrumentations and stores return them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ragtide_schemas.limits import DOCUMENTS_MAX
from ragtide_schemas.opaque import is_opaque

from .document_keys import (
    COLUMNS_OF_IDS,
    COLUMNS_OF_SCORES,
    COLUMNS_OF_TEXTS,
    IDS,
    LISTS,
    NAMES_OF_DOCUMENTS,
    OWN_IDS,
    RESULTS,
    SCORES,
    SECTIONS,
    TEXTS,
    WRAPPED,
    WRAPPERS,
    given,
    is_missing,
    says_nothing,
)
from .literals import CLASS, BrokenTextError, value_of
from .parts import text_of_content

DEPTH_MAX: Final = 8
"""Levels of a reply that are searched for a list of documents."""
ITEMS_MAX: Final = 2 * DOCUMENTS_MAX
"""Items of a list of documents that are looked at: a longer list is none, since an interaction has fewer documents."""
DIGITS_MAX: Final = 9
"""A longer number is no place in a list."""


class Found(NamedTuple):
    """A document as a span has it."""

    text: str | None
    """None if the span has only the id of the document."""
    id: str | None = None
    score: float | None = None


def documents_of(value: Any, depth: int = 0) -> list[Found] | None:
    """Return the documents in the reply of a retriever, best first; None if the reply has no documents.

    An empty list means that nothing was found.
    """
    if depth > DEPTH_MAX or value is None:
        return None
    if isinstance(value, str):
        if not value.strip() or is_opaque(value):
            return None
        return [] if says_nothing(value) else [Found(value)]
    if isinstance(value, dict):
        lists = {key: inner for key, inner in value.items() if isinstance(inner, list | dict) and key != "references"}
        if len(lists) > 1 and all(key in SECTIONS or str(key).endswith(RESULTS) for key in lists):
            read = [documents_of(inner, depth + 1) for inner in lists.values() if inner]
            return None if None in read else [document for documents in read for document in documents or ()]
        items = _items(value)
        return _read_mapping(value, depth) if items is None else _read_list(items, depth)
    return _read_list(value, depth) if isinstance(value, list) else None


def _read_list(items: Sequence[Any], depth: int) -> list[Found] | None:
    if len(items) > ITEMS_MAX:
        return None
    items = [item for item in items if not _is_blank(item)]
    items = [item for item in items if not _is_textless(item)] or items
    if not items or (len(items) == 1 and isinstance(items[0], str) and says_nothing(items[0])):
        return []
    split: list[Any] = []
    for item in items:
        is_cited = isinstance(item, dict) and "reference_id" in item and _are_texts(item.get("content"))
        split.extend([{**item, "content": text} for text in item["content"]] if is_cited else [item])
    read = [_document(item) for item in split]
    known = [document for document in read if document is not None]
    if len(known) == len(read):
        return known
    if known:
        return None
    pairs = [item for item in items if isinstance(item, list) and len(item) == 2]
    if len(pairs) == len(items) and all(isinstance(title, str) and _are_texts(texts) for title, texts in pairs):
        return [Found(joined(texts)) for _, texts in pairs]
    # A list of lists: one reply for each query of a batch, or the parts (answer, documents) of a tuple.
    inner = [documents_of(item, depth + 1) for item in items if not isinstance(item, str | int | float | None)]
    lists = [documents for documents in inner if documents is not None]
    return [document for documents in lists for document in documents] if lists else None


def _is_blank(item: Any, depth: int = 0) -> bool:
    if isinstance(item, list) and depth <= DEPTH_MAX:
        scored = len(item) == 2 and isinstance(item[1], int | float)
        return all(_is_blank(inner, depth + 1) for inner in (item[:1] if scored else item))
    if not isinstance(item, dict) or depth > DEPTH_MAX:
        return is_missing(item)
    wrapped = (key for key in item.keys() & WRAPPERS.keys() if isinstance(item[key], dict))
    places = item.keys() & _BLANKS | {key for key in wrapped if not TEXTS.keys().isdisjoint(item[key])}
    return bool(places) and all(_is_blank(item[key], depth + 1) for key in places)


def _is_textless(item: Any) -> bool:
    inner = item.get("document", item) if isinstance(item, dict) else None
    return isinstance(inner, dict) and not any(
        inner[key] and str(inner[key]).strip() for key in inner.keys() & _CONTENTS
    )


_BLANKS: Final = WRAPPED | TEXTS.keys()
_CONTENTS: Final = _BLANKS | LISTS.keys()


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def joined(sentences: Sequence[str]) -> str:
    """Return the text of sentences, with a space between two that have none.

    >>> joined(["It opened in 1889.", " It is made of iron.", "It is tall."])
    'It opened in 1889. It is made of iron. It is tall.'
    """
    pieces: list[str] = []
    for sentence in sentences:
        apart = not pieces or pieces[-1][-1:].isspace() or sentence[:1].isspace()
        pieces.append(sentence if apart else f" {sentence}")
    return "".join(pieces).strip()


def _read_mapping(reply: Mapping[str, Any], depth: int) -> list[Found] | None:
    inner = [key for key, item in reply.items() if isinstance(item, list | dict)]
    documents = _columns(reply) if inner else None
    for key in given(reply, LISTS) if inner and documents is None else ():
        documents = documents_of(reply[key], depth + 1) if isinstance(reply[key], list | dict) else None
        if documents is not None:
            break
    if documents is not None:
        return documents
    if any(_are_texts(reply.get(key)) and len(reply[key]) > 1 for key in _OF_ONE):
        return None  # a table whose columns do not agree, or the parts of one text
    single = _document(reply)
    if single is not None:
        return [single]
    for key in inner if depth < DEPTH_MAX else ():  # Haystack: {"retriever": {"documents": [...]}}
        documents = documents_of(reply[key], depth + 1) if key not in NAMES_OF_DOCUMENTS else None
        if documents:
            return documents
    texts = (reply[key] for key in given(reply, LISTS) if isinstance(reply[key], str))
    return next((documents_of(text, depth + 1) for text in texts), None)


def _items(reply: Mapping[str, Any]) -> list[Any] | None:
    """Return the items of a list with places as keys, or the rows of a table as pandas writes it; None otherwise."""
    if reply and all(isinstance(key, str) and len(key) < DIGITS_MAX and key.isdecimal() for key in reply):
        places = sorted(reply, key=int)
        # Other numbers are ids, as in streams of RAGFlow: their order is that of the reply.
        return [reply[key] for key in (places if int(places[-1]) <= len(places) else reply)]
    names, data = reply.get("columns"), reply.get("data")
    if _are_texts(names) and isinstance(data, list) and all(isinstance(row, list) for row in data[: ITEMS_MAX + 1]):
        return [dict(zip(names or (), row, strict=False)) for row in data[: ITEMS_MAX + 1]]
    columns = [column for column in reply.values() if isinstance(column, dict)]
    if len(columns) == len(reply) and any(key in reply for key in COLUMNS_OF_TEXTS):
        indices = list(columns[0])
        if all(str(index).isdecimal() for index in indices) and all(list(column) == indices for column in columns):
            return [{key: column[index] for key, column in reply.items()} for index in indices]
    return None


def _columns(reply: Mapping[str, Any]) -> list[Found] | None:
    for key in given(reply, COLUMNS_OF_TEXTS):
        if not isinstance(reply[key], list) or not 0 < len(reply[key]) <= ITEMS_MAX:
            continue
        others = {name: column for name, column in reply.items() if name != key and isinstance(column, list)}
        rows = _rows(reply[key], others.values(), whole=key in _LONE_COLUMNS and len(others) == 0)
        if rows is not None:
            ids = _column(others, COLUMNS_OF_IDS, len(rows))
            scores = _column(others, COLUMNS_OF_SCORES, len(rows))
            return [
                Found(text, _text_of_id(number), _number_of(score))
                for text, number, score in zip(rows, ids, scores, strict=True)
                if not is_missing(text)
            ]
    return None


_OF_ONE: Final = ("text", "page_content", "pageContent", "sentences")
_LONE_COLUMNS: Final = ("text", "page_content", "passage_text", "texts", "passages")
"""Columns of texts that need no other column beside them."""


def _rows(column: list[Any], others: Iterable[list[Any]], *, whole: bool) -> list[str | None] | None:
    lists = all(isinstance(row, list) for row in column)
    if lists and not all(len(other) == len(column) and not _nested(other) for other in others):
        column, others = _flat(column), [_flat(other) for other in others]  # Chroma has a list for each query
        lists = False
        if len(column) > ITEMS_MAX:
            return None
    if not whole and not any(len(other) == len(column) for other in others):
        return None
    if lists:
        rows: list[Any] = [joined(row) if _are_texts(row) else row or None for row in column]
    else:
        rows = column
    return rows if all(isinstance(row, str) or is_missing(row) for row in rows) else None


def _nested(column: list[Any]) -> bool:
    return bool(column) and all(isinstance(row, list) for row in column)


def _flat(column: list[Any]) -> list[Any]:
    return [item for row in column for item in row] if _nested(column) else column


def _column(columns: Mapping[str, list[Any]], names: Mapping[str, int], size: int) -> Sequence[Any]:
    candidates = (_flat(columns[name]) for name in given(columns, names))
    return next((column for column in candidates if len(column) == size), [None] * size)


def _text_of_id(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None


def _document(item: Any) -> Found | None:
    if isinstance(item, str):
        return Found(item) if item.strip() and not is_opaque(item) else None
    if isinstance(item, list) and len(item) == 2 and isinstance(item[1], int | float):  # (document, score)
        scored = _document(item[0])
        return scored._replace(score=float(item[1])) if scored else None
    if not isinstance(item, dict):
        return None
    text, key = _text(item), _id(item)
    scores = (_number_of(item[name]) for name in given(item, SCORES))
    score = next((number for number in scores if number is not None), None)
    if text is not None:
        return Found(text, key, score)
    for wrapper in given(item, WRAPPERS):
        inner = item[wrapper]
        wrapped = _document(inner) if isinstance(inner, dict) else None
        if wrapped and wrapped.text is not None:
            own = _id(inner, OWN_IDS) or _id(item, OWN_IDS) or wrapped.id or key
            return Found(wrapped.text, own, score if score is not None else wrapped.score)
    has_others = bool(item.keys() - {*IDS, *SCORES, CLASS, "metadata", "type"})
    is_named = key is not None and not has_others and any(name in item for name in SCORES)
    return Found(None, key, score) if is_named else None


def _text(item: Mapping[str, Any]) -> str | None:
    for key in given(item, TEXTS):
        value = item[key]
        if key == "sentences":
            text = joined(value) if _are_texts(value) and len(item) > 1 else ""
        else:
            text = value if isinstance(value, str) else text_of_content(value) if isinstance(value, list) else ""
        if not is_missing(text):
            return text
    return None


def _id(item: Mapping[str, Any], keys: Mapping[str, int] = IDS) -> str | None:
    places = [item, *(_metadata(item[key]) for key in ("metadata", "meta") if key in item)]
    for names in (OWN_IDS, keys):
        for place in places:
            for key in given(place, names) if isinstance(place, dict) else ():
                if (text := _text_of_id(place[key])) is not None:
                    return text
    return None


def _metadata(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return value_of(value)
    except BrokenTextError:
        return None


def _number_of(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    return float(value) if known else None
