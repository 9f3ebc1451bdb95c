"""Replies of searches: results of MCP, content blocks, and the ways to say that nothing was found."""

import json
from typing import Any

import pytest
from tests.support.cases import for_each

from ragtide_producers.shapes.replies import reply_documents

pytestmark = pytest.mark.pure

FOUND = [{"id": "a", "text": "It opens."}, {"id": "b", "text": "It is lent."}]
BOTH = ["It opens.", "It is lent."]
SUMMARY = {"type": "text", "text": "2 passages found."}


def part(text: Any) -> dict[str, str]:
    return {"type": "text", "text": text if isinstance(text, str) else json.dumps(text)}


DOCUMENTS: dict[str, Any] = {
    "JSON in the text part": {"content": [part({"results": FOUND})], "isError": False},
    "a text part for each document": {"content": [part(one) for one in FOUND]},
    "structured content and a summary": {"content": [SUMMARY], "structuredContent": {"result": FOUND}},
    "structured content in names of Python": {"content": [SUMMARY], "structured_content": {"hits": FOUND}},
    "structured content that repeats the text": {"content": [part(FOUND)], "structuredContent": {"result": FOUND}},
    "resources and a summary": {
        "content": [SUMMARY, *({"type": "resource", "resource": {"uri": one, "text": one}} for one in BOTH)]
    },
    "a resource that is JSON": {"content": [{"type": "resource", "resource": {"uri": "r", "text": json.dumps(FOUND)}}]},
    "plain text parts": {"content": [part(one) for one in BOTH]},
    "blocks of Bedrock": [{"json": {"documents": FOUND}}],
    "a result of Strands": {"toolResult": {"status": "success", "content": [{"text": one} for one in BOTH]}},
    "a result of ADK": {"result": json.dumps(FOUND)},
    "a result of MCP in a result": {"result": {"content": [part(FOUND)], "isError": False}},
    "Bedrock's Retrieve": {"retrievalResults": [{"content": {"text": one, "type": "TEXT"}} for one in BOTH]},
    "a text that is JSON": json.dumps({"documents": FOUND}),
}


@for_each("reply", DOCUMENTS.values())
def test_the_documents_of_a_reply_are_those_that_were_found(reply: Any) -> None:
    assert [document.text for document in reply_documents(reply) or ()] == BOTH


NOTHING: tuple[Any, ...] = (
    None, [], [[]], [None], "[]", "null", "None", {"results": []}, {"results": None}, {"documents": [], "total": 0},
    {"hits": {"total": 0, "hits": []}}, {"ids": [[]], "documents": [[]]}, {"count": 0}, {"result": "[]"},
    {"content": [], "isError": False}, {"content": [part([])]}, {"content": [part("No results found.")]},
    {"structuredContent": {"result": []}, "content": []}, [{"json": {"documents": []}}], [{"text": "No matches."}],
    {"retrievalResults": []}, {"status": "ok", "message": "No documents found for 'x'."}, "0 results",
    "No results found.", "No relevant documents were found.", "There is no information available about that.",
    "Sorry, I could not find any relevant passages.", "Nothing found.", "No matching result found with the config: x",
    "The search returned no results.", "Keine Treffer gefunden.", "Aucun résultat trouvé.",
    "No se encontraron resultados.", "未找到相关结果。",
)  # fmt: skip


@for_each("reply", NOTHING)
def test_a_reply_that_says_nothing_was_found_has_no_documents(reply: Any) -> None:
    assert reply_documents(reply) == []


UNKNOWN: tuple[Any, ...] = (
    {}, {"isError": True, "content": [part("No results found.")]}, {"isError": True, "content": [part(FOUND)]},
    {"toolResult": {"status": "error", "content": [{"text": "timeout"}]}}, {"error": "timeout"},
    {"result": {"isError": True, "content": [part("timeout")]}}, {"success": False, "message": "No access."},
    {"content": [SUMMARY]}, "2 passages found.", "Found 12 matching documents", {"temperature": 21},
    {"content": [{"type": "image", "data": "aa", "mimeType": "image/png"}]}, {"status": "stored"},
    "Error executing tool search_docs: timeout", "Traceback (most recent call last):\n  File",
)  # fmt: skip


@for_each("reply", UNKNOWN)
def test_an_error_or_a_summary_is_no_document_and_does_not_say_that_nothing_was_found(reply: Any) -> None:
    assert reply_documents(reply) is None


@for_each(
    "text",
    [
        "No documents are needed to register.",
        "No information is stored about visitors.",
        "No data plan is needed for roaming.",
        "Nothing may be parked here.",
        "Found objects are kept for 30 days.",
        "12 passages lead to the old town.",
        "Error: E12 means that the lock is jammed.",
    ],
)
def test_a_document_that_begins_like_such_a_sentence_is_one(text: str) -> None:
    assert [document.text for document in reply_documents(text) or ()] == [text]


CHUNKS: dict[str, Any] = {
    "a node": lambda text: {"node": {"id_": "n", "text": text, "metadata": {"file": "a.pdf"}}, "score": 0.5},
    "a payload": lambda text: {"id": 1, "score": 0.5, "payload": {"page_content": text, "metadata": {}}},
    "a source": lambda text: {"_id": "1", "_score": 1.0, "_source": {"content": text}},
    "metadata": lambda text: {"id": "a", "score": 0.5, "metadata": {"text": text, "source": "a.pdf"}},
    "properties": lambda text: {"uuid": "u", "properties": {"text": text}},
    "parts": lambda text: {"file_id": "f", "score": 0.5, "content": [{"type": "text", "text": text}]},
    "a pair with its score": lambda text: [{"page_content": text, "metadata": {}}, 0.5],
    "a constructor": lambda text: {"lc": 1, "type": "constructor", "kwargs": {"page_content": text, "metadata": {}}},
}


@for_each("blank", ["", " \n", None])
@pytest.mark.parametrize("name", CHUNKS)
def test_a_blank_chunk_among_good_ones_is_left_out_wherever_its_text_stands(name: str, blank: str | None) -> None:
    found = reply_documents([CHUNKS[name](text) for text in (BOTH[0], blank, BOTH[1])])
    assert [document.text for document in found or ()] == BOTH
