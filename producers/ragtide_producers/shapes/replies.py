"""The documents in the reply of a search: results of MCP, content blocks, replies that found nothing, and errors.

Sources: Model Context Protocol 2025-06-18 ("Tools", "Structured Content"), Bedrock's Converse API and Strands (content
blocks), Google ADK (`result`), and how search tools write that they found nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ragtide_schemas.limits import DOCUMENTS_MAX, NAME_MAX_CHARS

from .document_keys import LISTS
from .documents import ITEMS_MAX, Found, documents_of
from .literals import BrokenTextError, UnreadableError
from .parts import plain
from .spelled import spelled_documents

DEPTH_MAX: Final = 6
"""Levels of a reply that wrap another reply."""
NOTHING_CHARS: Final = 300
"""Most characters of a text that says that nothing was found."""

_NOTHING_WORDS: Final = frozenset({"none", "null", "nil", "n/a", "empty", "[]", "{}", "nothing", "not found"})
_NOUNS: Final = (
    r"(?:results?|match(?:es)?|matching|hits?|documents?|docs?|passages?|chunks?|articles?|entries|entry|records?|"
    r"pages?|items?|files?|sources?|contexts?|information|info|data|content|knowledge|answers?|snippets?|memories)"
)
_NOTHING: Final = re.compile(
    r"(?:(?:i(?:'m| am)? )?(?:sorry|unfortunately)[,.:!]? (?:but )?)?"
    r"(?:"
    rf"(?:there (?:is|are|was|were) )?(?:no|0|zero|not any)(?: [a-z-]{{1,20}}){{0,3}}? {_NOUNS}"
    r"(?:$| (?:(?:was|were|is|are|have been|has been|could be) )?"
    r"(?:found|returned|retrieved|available|matched|match|matches|matching|for|in the|with the config)\b.*)"
    rf"|(?:i |we |it )?(?:found nothing|(?:could not|couldn't|did not|didn't|unable to|cannot|can't) (?:find|retrieve|"
    rf"locate)(?: [a-z-]{{1,20}}){{0,3}}? {_NOUNS}\b.*)"
    r"|no(?: [a-z-]{1,20}){1,4} (?:were |was )?found"
    r"|nothing (?:was )?(?:found|matched|retrieved|relevant)\b.*"
    r"|(?:the )?(?:search|query|lookup|retrieval) (?:returned|found|gave|yielded) (?:nothing|no|0|zero)\b.*"
    r"|(?:keine (?:ergebnisse|treffer|dokumente)|nichts) gefunden\b.*"
    r"|aucun(?:e)? (?:résultat|document)s?(?: trouvée?s?)?\b.*"
    r"|no se (?:encontraron|encontró) .*"
    r"|(?:没有|未)(?:找到|检索到|查到).*"
    r")",
    re.IGNORECASE,
)
"""A sentence of a tool that found nothing. It is matched against the whole of a short line, without its full stop."""
_SUMMARY: Final = re.compile(
    rf"(?:i |we )?(?:found |retrieved |returned |got )?\d{{1,6}}(?: [a-z-]{{1,20}}){{0,2}}? {_NOUNS}"
    r"(?: (?:(?:was|were) )?(?:found|returned|retrieved|matched))?[.:!]?",
    re.IGNORECASE,
)
"""A line such as `2 passages found.`: it counts the documents, and is none."""
_FAILURE: Final = re.compile(
    r"\W{0,4}(?:[\w.]{0,60}(?:error|exception)\s?:"
    r"|(?:an? )?(?:\w{1,20} )?(?:error|exception) (?:occurred|while|in|during|executing|calling|from)\b"
    r"|failed to (?:search|retrieve|fetch|query|connect|execute|load|find|get|call|reach)\b"
    r"|(?:the )?(?:search|retrieval|query|request|tool|lookup|index)(?: call| request)? (?:failed|timed out)\b"
    r"|traceback \(most recent call last\))",
    re.IGNORECASE,
)
"""The beginning of the reply of a tool that failed."""
_TOOL_FAILURE: Final = re.compile(
    r"\W{0,4}(?:error (?:executing|calling) tool|traceback \(most recent call last\))", re.IGNORECASE
)
ERROR_CHARS: Final = 1_000
"""Most characters of such a reply, unless it is a traceback: a longer one may be a document about errors."""
_TOOL_KEYS: Final = frozenset({"tool_call_id", "tool_name", "raw_output", "artifact"})
_TOOL_WRAPPERS: Final = ("data", "kwargs")
_RESULTS: Final = ("artifact", "raw_output", "content", "blocks", "output", "result")
"""Keys of the result of a tool in its message, those with objects first."""
_OBJECT_KEYS: Final = ("page_content", "pageContent", "node", "id_")
_COUNTS: Final = ("total", "count", "total_results", "totalResults", "num_results", "total_count", "totalCount", "n")
_SAID: Final = ("message", "detail", "text", "result", "output", "response", "content", "answer", "info")
"""Keys under which a reply says in words that nothing was found."""
_PART_TYPES: Final = frozenset({"text", "resource", "resource_link", "image", "audio", "json"})
_PART_KEYS: Final = (frozenset({"text"}), frozenset({"json"}))
_STRUCTURED: Final = ("structuredContent", "structured_content")
_WRAPPERS: Final = ("toolResult", "functionResponse", "function_response", "result", "response", "output", "value")
_MCP_KEYS: Final = frozenset({"content", *_STRUCTURED, "isError", "is_error", "_meta", "meta", "status", "toolUseId"})
_FAILED: Final = frozenset({"error", "failed", "failure"})


def documents_in(value: Any, left_out: Counter[str] | None = None) -> list[Found] | None:
    """Return the documents in a value, best first: an empty list if nothing was retrieved, None if it has none.

    Args:
        value: list of texts or of objects, reply of a search, or a text that spells one.
        left_out: counts by name what is no text and was left out, such as `image`.

    Raises:
        UnreadableError: the value could be read in two ways.
    """
    counts: Counter[str] = Counter()
    value = plain(_few(value), counts, reasoning=True)
    spelled = _few(spelled_documents(value))
    if spelled is not value and spelled != value:
        spelled = plain(spelled, counts, reasoning=True)
    documents = [] if value is None and not counts else reply_documents(spelled)
    if left_out is not None:
        left_out.update(counts)
    if not documents and counts:
        raise UnreadableError(f"it has only media ({', '.join(counts)}): give the text of each document")
    return documents


def _few(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) > ITEMS_MAX:
        raise UnreadableError(
            f"it has {len(value):,} items: give at most {DOCUMENTS_MAX} documents, those that the generator got"
        )
    return value


def document_fields(value: Any, left_out: Counter[str] | None = None) -> list[dict[str, Any]]:
    """Return the fields of the documents in a value, as the schema has them, best first: text, id and score.

    Args:
        value: as `documents_in` takes it.
        left_out: counts by name what is no text and was left out, such as `image`.

    Raises:
        UnreadableError: no texts of documents can be read without guessing.
    """
    documents = documents_in(value, left_out)
    if documents is None:
        raise UnreadableError("no documents can be read from it: give a list of texts, or of objects with text")
    if any(document.text is None for document in documents):
        raise UnreadableError("it has ids and no texts: give the text of each document")
    named = (
        document._replace(id=None) if len(document.id or "") > NAME_MAX_CHARS else document for document in documents
    )
    return [{name: item for name, item in document._asdict().items() if item is not None} for document in named]


def reply_documents(value: Any, depth: int = 0) -> list[Found] | None:
    """Return the documents in the reply of a search, best first; None if the reply has none, or is an error.

    An empty list means that nothing was found. Structured content of MCP wins over its text. JSON inside a text is
    read; a line that only counts the results is no document.

    >>> reply_documents({"content": [{"type": "text", "text": "No results found."}], "isError": False})
    []
    >>> reply_documents({"content": [{"type": "text", "text": "timeout"}], "isError": True})
    """
    if depth > DEPTH_MAX or is_error(value, of_tool=False):
        return None
    if reports_nothing(value):
        return []
    if isinstance(value, str):
        return _read_text(value, depth)
    if isinstance(value, Mapping):
        return _read_mapping(value, depth)
    if isinstance(value, list) and value and all(_is_part(item) for item in value):
        return _read_parts(value, depth)
    return _known_documents(documents_of(spelled_documents(value)))


def is_error(value: Any, *, of_tool: bool = True) -> bool:
    """Whether the reply of a tool is an error: no text in it is a document.

    Args:
        value: the reply.
        of_tool: whether a text is surely the reply of a tool, and not a document that may be about errors.
    """
    if isinstance(value, str):
        match = (_FAILURE if of_tool else _TOOL_FAILURE).match(value)
        return match is not None and (len(value) <= ERROR_CHARS or match[0].lower().endswith("last)"))
    if not isinstance(value, Mapping):
        return False
    tool = _tool_message(value)
    said = None if tool is None else tool.get("content", tool.get("raw_output"))
    return _is_failed(tool or value) or (isinstance(said, str) and is_error(said))


def _is_failed(value: Mapping[str, Any]) -> bool:
    if value.get("isError") is True or value.get("is_error") is True or value.get("success") is False:
        return True
    inner = next((value[key] for key in _WRAPPERS[:3] if isinstance(value.get(key), Mapping)), None)
    if inner is not None and is_error(inner):
        return True
    status = value.get("status")
    if isinstance(status, str) and status.strip().lower() in _FAILED:
        return True
    return bool(value.get("error")) and not any(isinstance(value.get(key), list) and value[key] for key in LISTS)


def reports_nothing(value: Any) -> bool:
    """Whether a reply says that nothing was found: an empty list, `null`, a count of 0, or a sentence.

    An empty object shows nothing, not even that: some senders write it for a content that they hide.
    """
    if isinstance(value, str):
        return _says_nothing(value)
    if isinstance(value, list):
        return not value or all(item is None or item == [] for item in value)
    if not isinstance(value, Mapping) or not value:
        return value is None
    lists = [value[key] for key in LISTS if key in value]
    if any(isinstance(item, Mapping | list) and item for item in value.values()):
        return False
    said = [value[key] for key in _SAID if isinstance(value.get(key), str) and value[key].strip()]
    if said:
        return all(_says_nothing(text) for text in said)
    counts = [value[key] for key in _COUNTS if isinstance(value.get(key), int)]
    return bool(lists or counts) and not any(lists) and not any(counts)


def _says_nothing(text: str) -> bool:
    stripped = text.strip()
    if len(stripped) > NOTHING_CHARS or "\n" in stripped:
        return False
    bare = stripped.rstrip(".!… 。")
    return bare.lower() in _NOTHING_WORDS or bool(_NOTHING.fullmatch(bare))


def _read_text(text: str, depth: int) -> list[Found] | None:
    try:
        value = spelled_documents(text)
    except BrokenTextError:
        return None
    if isinstance(value, Mapping | list):
        return reply_documents(value, depth + 1)
    return _known_documents(documents_of(value))


def has_objects(value: Any) -> bool:
    """Whether the result of a tool has documents as objects of a framework, whatever the name of the tool."""
    tool = _tool_message(value) if isinstance(value, Mapping) else None
    lists = [tool[key] for key in _RESULTS[:2] if isinstance(tool.get(key), list)] if tool is not None else []
    return any(
        items and all(isinstance(item, Mapping) and any(key in item for key in _OBJECT_KEYS) for item in items)
        for items in lists
    )


def tool_content(value: Any) -> Any:
    """Return the content of the message of a tool; a value that is none as it is."""
    tool = _tool_message(value) if isinstance(value, Mapping) else None
    return value if tool is None else next((tool[key] for key in _RESULTS if tool.get(key) is not None), None)


def _tool_message(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    inner = next((value[key] for key in _TOOL_WRAPPERS if isinstance(value.get(key), Mapping)), value)
    return inner if len(inner.keys() & _TOOL_KEYS) > 1 or (inner is not value and "tool_call_id" in inner) else None


def _read_mapping(value: Mapping[str, Any], depth: int) -> list[Found] | None:
    tool = _tool_message(value)
    if tool is not None:
        results = (reply_documents(tool[key], depth + 1) for key in _RESULTS if tool.get(key) is not None)
        return next((documents for documents in results if documents is not None), None)
    for key in _STRUCTURED:
        if isinstance(value.get(key), Mapping | list):
            documents = reply_documents(value[key], depth + 1)
            if documents is not None:
                return documents
    content = value.get("content")
    if isinstance(content, list) and value.keys() <= _MCP_KEYS:
        return reply_documents(content, depth + 1)
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key in _WRAPPERS and isinstance(inner, Mapping | list | str):
            return reply_documents(inner, depth + 1)
    return _known_documents(documents_of(dict(value)))


def _is_part(item: Any) -> bool:
    return isinstance(item, Mapping) and (
        (item.get("type") in _PART_TYPES and bool({"text", "resource", "uri", "data", "json"} & item.keys()))
        or item.keys() in _PART_KEYS
    )


def _read_parts(parts: Iterable[Mapping[str, Any]], depth: int) -> list[Found] | None:
    formed: list[list[Found]] = []
    plain: list[Found] = []
    for part in parts:
        if "resource" in part or part.get("type") == "resource_link":
            documents = _read_resource(part.get("resource", part), depth)
        elif "json" in part:
            documents = reply_documents(part["json"], depth + 1)
        else:
            text = part.get("text")
            if not isinstance(text, str) or not text.strip():
                continue
            if not _is_json(text):
                plain.extend(() if reports_nothing(text) or _SUMMARY.fullmatch(text.strip()) else (Found(text),))
                if reports_nothing(text):
                    formed.append([])
                continue
            documents = _read_text(text, depth)
        if documents is not None:
            formed.append(documents)
    if any(formed) or (formed and not plain):
        return [document for documents in formed for document in documents]
    return plain or None


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]")


def _read_resource(resource: Any, depth: int) -> list[Found] | None:
    if not isinstance(resource, Mapping):
        return None
    uri = resource.get("uri")
    key = uri if isinstance(uri, str) and uri else None
    text = resource.get("text")
    if not isinstance(text, str) or not text.strip():
        return None if key is None or "blob" in resource else [Found(None, key)]
    documents = _read_text(text, depth) if _is_json(text) else None
    return documents if documents is not None else [Found(text, key)]


def _known_documents(documents: list[Found] | None) -> list[Found] | None:
    if not documents or any(
        document.id is not None or document.score is not None or document.text is None for document in documents
    ):
        return documents
    texts = [(document.text or "").strip() for document in documents]
    if all(_says_nothing(text) for text in texts):
        return []
    is_summary = all(len(text) <= NOTHING_CHARS and _SUMMARY.fullmatch(text) for text in texts)
    return None if is_summary else documents
