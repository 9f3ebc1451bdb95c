"""Replies of searches: results of MCP, content blocks, and the ways to say that nothing was found."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.cases import for_each

from ragtide_producers.shapes.replies import documents_in, is_error, reply_documents
from ragtide_producers.traces.reading import if_readable

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
    "an object in each line": "\n".join(json.dumps(one) for one in FOUND) + "\n",
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


def message(content: Any, artifact: Any = None, **more: Any) -> dict[str, Any]:
    """Return a message of a tool, as LangChain writes it."""
    return {"content": content, "artifact": artifact, "tool_call_id": "1", "status": "success", "name": "t", **more}


def output(given: Any, **more: Any) -> dict[str, Any]:
    """Return the output of a tool, as LlamaIndex writes it."""
    return {"blocks": [{"text": str(given)}], "tool_name": "t", "raw_input": {}, "raw_output": given, **more}


PRINTED = (
    "[" + ", ".join(f"Document(id='{one['id']}', metadata={{}}, page_content='{one['text']}')" for one in FOUND) + "]"
)
OBJECTS = [{"id": one["id"], "page_content": one["text"], "metadata": {}, "type": "Document"} for one in FOUND]
NODES = [{"node": {"id_": one["id"], "text": one["text"]}, "score": 0.5} for one in FOUND]
RESULTS: tuple[Any, ...] = (FOUND, {"results": FOUND, "query": "x"}, BOTH, NODES)


@for_each(
    "wrap", [lambda tool: tool, lambda tool: {"type": "tool", "data": tool}, lambda tool: {"lc": 1, "kwargs": tool}]
)
def test_the_result_of_a_tool_is_its_texts_and_one_document_each(wrap: Any) -> None:
    replies = [
        *(message(json.dumps(result)) for result in RESULTS),
        *(message(str(result)) for result in RESULTS),
        *(output(result) for result in RESULTS),
        *(output(json.dumps(result)) for result in RESULTS),
        *(message(content, OBJECTS) for content in ("\n\n".join(BOTH), "2 passages found.", "")),
        message(BOTH), message(PRINTED), output(PRINTED),
    ]  # fmt: skip
    for reply in replies:
        assert [document.text for document in reply_documents(wrap(reply)) or ()] == BOTH
    for nothing in (message("[]"), message("", []), output([]), output("No results found.")):
        assert reply_documents(wrap(nothing)) == []
    failed = (message("x", status="error"), message("Error: the index timed out"), output("x", is_error=True))
    for reply in (*failed, output("TimeoutError: no answer"), message("Failed to query the index")):
        assert reply_documents(wrap(reply)) is None


@for_each(
    "text, fails",
    [
        ("Error: the index timed out", True),
        ("requests.exceptions.ReadTimeout: 5 s", False),
        ("httpx.ReadError: closed", True),
        ("An unexpected error occurred while searching.", True),
        ("Search failed: 503", True),
        ("Error handling is described in chapter 3.", False),
        ("The search for errors failed in 1937.", False),
        ("Error: " + "a long text about errors. " * 100, False),
    ],
)
def test_the_text_of_a_tool_is_an_error_if_it_begins_as_one(text: str, fails: bool) -> None:
    assert is_error(text) is fails


@for_each("text", ["Error" * 40_000, "a." * 100_000 + "error", " " * 200_000, "(" * 200_000 + "error:"])
def test_hostile_replies_end(text: str) -> None:
    is_error(text)
    is_error({"type": "tool", "data": message(text)})


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


@for_each(
    "item",
    [
        {"id": "own", "page_content": "It opens.", "metadata": {"source": "handbook.md"}},
        {"text": "It opens.", "source": "handbook.md", "metadata": {"id": "own"}},
        {"id": "own", "document": {"page_content": "It opens.", "metadata": {"source": "handbook.md"}}},
        {"node": {"id_": "own", "text": "It opens.", "metadata": {"url": "handbook.md"}}, "score": 0.5},
        {"_id": "own", "_source": {"text": "It opens.", "url": "handbook.md"}},
    ],
)
def test_the_id_of_a_document_is_its_own_before_the_name_of_its_source(item: dict[str, Any]) -> None:
    assert [document.id for document in documents_in([item]) or ()] == ["own"]


@for_each("word", ["Blue", "Green", "Hydrogen", "4711", "YES0"])
@for_each(
    "item",
    [
        lambda text: {"page_content": text, "metadata": {}, "type": "Document"},
        lambda text: {"text": text, "type": "document"},
    ],
)
def test_a_document_of_a_single_word_is_no_file_in_base64(item: Callable[[str], dict[str, Any]], word: str) -> None:
    left_out: Counter[str] = Counter()
    found = documents_in([item("Red"), item(word)], left_out)
    assert [document.text for document in found or ()] == ["Red", word]
    assert not left_out


@for_each("line", ['{"text": "It is', "and so on", '["a"]', "{}, {}"])
def test_lines_that_are_not_all_objects_are_not_read_as_such(line: str) -> None:
    text = f"{json.dumps(FOUND[0])}\n{line}"
    assert [document.text for document in if_readable(lambda: reply_documents(text), None) or ()] != ["It opens."]
