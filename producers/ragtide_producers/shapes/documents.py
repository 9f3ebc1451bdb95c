"""Retrieved documents, in the shapes in which instrumentations and stores return them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from .literals import CLASS, BrokenTextError, value_of
from .messages import text_of_content
from .texts import is_opaque

LISTS: Final = (
    "documents", "retrieved_documents", "docs", "results", "matches", "points", "hits", "nodes", "source_nodes",
    "source_documents", "chunks", "passages", "contexts", "context", "retrieved_contexts", "snippets", "sources",
    "references", "records", "rows", "items", "data", "value", "values", "result", "objects", "output", "outputs",
    "content", "response", "return_value", "artifact", "kwargs",
)  # fmt: skip
"""Keys under which a reply has its list of documents, the surest first."""
TEXTS: Final = (
    "page_content", "text", "content", "pageContent", "document", "chunk", "chunk_text", "passage", "body", "snippet",
    "page_text", "raw_content", "content_text", "document.content", "answer", "description", "summary",
)  # fmt: skip
"""Keys under which a document has its text."""
WRAPPERS: Final = (
    "node", "document", "doc", "payload", "_source", "fields", "kwargs", "metadata", "properties", "entity", "record",
    "resource", "data", "value", "chunk", "content", "meta",
)  # fmt: skip
"""Keys under which a found item has the document: LlamaIndex, Qdrant, Elasticsearch, Pinecone, Milvus, Weaviate."""
IDS: Final = (
    "id",
    "document.id",
    "_id",
    "id_",
    "doc_id",
    "document_id",
    "chunk_id",
    "node_id",
    "uuid",
    "key",
    "source",
    "url",
)
SCORES: Final = (
    "score",
    "document.score",
    "_score",
    "relevance_score",
    "relevance",
    "similarity",
    "@search.score",
    "distance",
)

DEPTH_MAX: Final = 8
"""Levels of a reply that are searched for a list of documents."""


class Found(NamedTuple):
    """A document as a span has it."""

    text: str | None
    """None if the span has only the id of the document."""
    id: str | None = None
    score: float | None = None


def documents_of(value: Any, depth: int = 0) -> list[Found] | None:
    """Return the documents in the reply of a retriever, best first; None if the reply tells no documents.

    An empty list means that nothing was found.
    """
    if depth > DEPTH_MAX or value is None:
        return None
    if isinstance(value, str):
        return [Found(value)] if value.strip() else None
    if isinstance(value, dict):
        return _in_mapping(value, depth)
    if isinstance(value, list):
        return _in_list(value, depth)
    return None


def _in_list(items: Sequence[Any], depth: int) -> list[Found] | None:
    if not items:
        return []
    found = [_document(item) for item in items]
    known = [item for item in found if item is not None]
    if len(known) == len(found):
        return known
    if known:
        return None
    # A list of lists: one reply for each query of a batch, or the parts (answer, documents) of a tuple.
    inner = [documents_of(item, depth + 1) for item in items if not isinstance(item, str | int | float | None)]
    lists = [documents for documents in inner if documents is not None]
    return [document for documents in lists for document in documents] if lists else None


def _in_mapping(reply: Mapping[str, Any], depth: int) -> list[Found] | None:
    columns = _columns(reply)
    if columns is not None:
        return columns
    for key in LISTS:
        if isinstance(reply.get(key), list | dict):
            found = documents_of(reply[key], depth + 1)
            if found is not None:
                return found
    single = _document(reply)
    if single is not None:
        return [single]
    for inner in reply.values():  # Haystack: {"retriever": {"documents": [...]}}
        if isinstance(inner, dict | list):
            found = documents_of(inner, depth + 1)
            if found:
                return found
    return next((documents_of(reply[key], depth + 1) for key in LISTS if isinstance(reply.get(key), str)), None)


def _columns(reply: Mapping[str, Any]) -> list[Found] | None:
    """Return the documents of a reply by columns, as Chroma gives it: `{"ids": [[...]], "documents": [[...]]}`."""
    ids, texts = _flat(reply.get("ids")), _flat(reply.get("documents"))
    if ids is None or texts is None or len(ids) != len(texts) or not all(isinstance(text, str) for text in texts):
        return None
    return [Found(text, str(key)) for key, text in zip(ids, texts, strict=True)]


def _flat(column: Any) -> list[Any] | None:
    """Return a column without its rows: Chroma has a list for each query of a batch."""
    if not isinstance(column, list):
        return None
    rows = column and all(isinstance(row, list) for row in column)
    return [item for row in column for item in row] if rows else column


def _document(item: Any) -> Found | None:
    if isinstance(item, str):
        return Found(item) if item.strip() and not is_opaque(item) else None
    if isinstance(item, list) and len(item) == 2 and isinstance(item[1], int | float):  # (document, score)
        found = _document(item[0])
        return found._replace(score=float(item[1])) if found else None
    if not isinstance(item, dict):
        return None
    text, key, score = _text(item), _id(item), _score(item)
    if text is None:
        for wrapper in WRAPPERS:
            inner = item.get(wrapper)
            found = _document(inner) if isinstance(inner, dict) else None
            if found and found.text is not None:
                return Found(found.text, found.id or key, score if score is not None else found.score)
    return Found(text, key, score) if text is not None or (key is not None and _known(item)) else None


def _known(item: Mapping[str, Any]) -> bool:
    """Whether a mapping without a text is a document all the same: `{"id": "a", "score": 0.4}`, as GenAI has it."""
    keys = item.keys() - {*IDS, *SCORES, CLASS, "metadata", "type"}
    return not keys and any(key in item for key in SCORES)


def _text(item: Mapping[str, Any]) -> str | None:
    for key in TEXTS:
        found = item.get(key)
        if found is None:
            continue
        text = found if isinstance(found, str) else text_of_content(found) if isinstance(found, list) else ""
        if text.strip():
            return text
    return None


def _id(item: Mapping[str, Any]) -> str | None:
    places: Iterable[Any] = (item, *(_metadata(item[key]) for key in ("metadata", "meta") if key in item))
    for place in places:
        for key in IDS if isinstance(place, dict) else ():
            found = place.get(key)
            if found is not None and isinstance(found, str | int) and found != "":
                return str(found)
    return None


def _metadata(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return value_of(value)
    except BrokenTextError:
        return None


def _score(item: Mapping[str, Any]) -> float | None:
    for key in SCORES:
        found = item.get(key)
        if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < float("inf"):
            return float(found)
    return None
