"""Keys and words by which retrieved documents are found in the replies of stores and of instrumentations."""

from collections.abc import Mapping
from math import isnan
from typing import Any, Final


def ranked(keys: str) -> Mapping[str, int]:
    """Return the place of each key, the surest first."""
    return {key: place for place, key in enumerate(keys.split())}


def given(item: Mapping[str, Any], keys: Mapping[str, int]) -> list[str]:
    """Return the keys of a mapping that are among others, the surest first."""
    return sorted(item.keys() & keys.keys(), key=keys.__getitem__)


LISTS: Final = ranked(
    "structuredContent structured_content "
    "documents retrieved_documents docs results matches points hits nodes source_nodes source_documents chunks "
    "passages contexts context retrieved_contexts snippets sources references records rows items data value values "
    "retrievedReferences citations contents "
    "result objects output outputs content response return_value artifact kwargs articles entries "
    "retrievalResults"
)
"""Keys under which a reply has its list of documents, the surest first."""
TEXTS: Final = ranked(
    "page_content text content pageContent chunk chunk_text chunk_content passage passage_text paragraph "
    "paragraph_text body contents snippet excerpt page_text raw_content content_text document.content document answer "
    "description summary sentences content_with_weight"
)
"""Keys under which a document has its text. `document` may be the name of a file, so it comes late."""
COLUMNS_OF_TEXTS: Final = ranked(
    "passage_text page_content text content documents texts contents passages chunks chunk snippets snippet sentences "
    "paragraphs paragraph_text passage body document"
)
"""Keys of the texts in a table of documents by columns."""
COLUMNS_OF_IDS: Final = ranked("ids id doc_ids doc_id document_ids document_id chunk_id")
COLUMNS_OF_SCORES: Final = ranked("scores score similarities similarity distances distance")
WRAPPERS: Final = ranked(
    "node document doc payload _source fields kwargs metadata properties entity record resource data value chunk "
    "content meta"
)
"""Keys under which a found item has the document: LlamaIndex, Qdrant, Elasticsearch, Pinecone, Milvus, Weaviate."""
WRAPPED: Final = frozenset(WRAPPERS) - frozenset(TEXTS) - {"metadata", "meta", "properties"}
"""Wrappers that have nothing but the document."""
IDS: Final = ranked(
    "id document.id _id id_ doc_id document_id chunk_id node_id uuid key source url doc_uri reference_id"
)
OWN_IDS: Final = ranked("id document.id _id id_ doc_id document_id chunk_id node_id uuid key")
"""Those that name the document itself: chunks of a file share the others."""
SCORES: Final = ranked("score document.score _score relevance_score relevance similarity @search.score distance")

SECTIONS: Final = frozenset((
    "reports", "entities", "relationships", "claims", "covariates", "text_units", "sources", "chunks",
))  # fmt: skip
"""Parts of a context that was made of a graph: GraphRAG, LightRAG."""
RESULTS: Final = "_search_results"
"""End of the names of the parts of a search of several kinds: R2R."""

SAYING_CHARS: Final = 60
"""A longer text is a document, whatever it says."""


MISSING: Final = frozenset(
    ("", "nan", "-nan", "nat", "none", "null", "nil", "na", "n/a", "<na>", "#n/a", "undefined", "[]", "{}", "()")
)
"""Words in lower case that tools write for a missing value; none of them is a document."""
NOTHING_FOUND: Final = frozenset(
    f"{start} {things} {end}".strip()
    for start in ("no", "no relevant", "no matching", "no search")
    for things in ("result", "results", "document", "documents", "context", "passages", "matches", "hits", "chunks")
    for end in ("", "found", "available", "retrieved", "were found")
) | {"nothing found", "nothing was found", "not found", "empty"}
"""What a search says that found nothing, in lower case."""


NAMES_OF_DOCUMENTS: Final = frozenset((*IDS, *COLUMNS_OF_IDS, "title", "titles", "name", "names", "urls", "sources"))
"""Keys whose texts name documents."""


def is_missing(value: Any) -> bool:
    """Return whether a value stands for a missing document: null, NaN, a blank text, or a word such as `nan`.

    >>> is_missing(None), is_missing("<NA>"), is_missing('"null"'), is_missing("None of them is open.")
    (True, True, True, False)
    """
    if isinstance(value, str):
        return len(value) < SAYING_CHARS and value.strip(" \t\r\n'\"").lower() in MISSING
    return value is None or (isinstance(value, float) and isnan(value))


def says_nothing(text: str) -> bool:
    """Return whether a whole text says that a search found nothing.

    >>> says_nothing("No results found."), says_nothing("No results found for tea: see the index.")
    (True, False)
    """
    return is_missing(text) or (len(text) < SAYING_CHARS and text.strip(" \t\r\n'\".!()[]").lower() in NOTHING_FOUND)
