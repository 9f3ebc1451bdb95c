"""Texts that may spell a list or an object, such as cells of a table: JSON, Python, NumPy and pandas.

What cannot be read without guessing raises `UnreadableError`; it is never taken as a text.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

from ragtide_schemas.opaque import closing_place

from .document_keys import IDS, SCORES, TEXTS, WRAPPERS, is_missing, says_nothing
from .literals import CLASS, Constructed, UnreadableError, literal_of, value_of

DEPTH_MAX: Final = 3
"""Times that a text may spell a text that spells a value."""
FIELD_CHARS: Final = 160
"""Characters in which the first field of a printed object has its mark."""
_QUOTED_LIST: Final = re.compile(r"\s*\[\s*['\"]")
_MAPPING_START: Final = re.compile(r"\{\s*['\"]")
_TUPLE_START: Final = re.compile(r"\(\s*['\"]")
_ARRAY_START: Final = re.compile(
    r"(?:np\.|numpy\.|pd\.|pandas\.)?(?:array|Series|Index|DataFrame|deque|tensor)\(|<\w{1,40}Array>"
)
_TABLE_END: Final = re.compile(r"dtype: \w{1,40}$|\[\d{1,12} rows x \d{1,12} columns\]$")
_OF_DOCUMENTS: Final = frozenset((*TEXTS, *IDS, *SCORES, *WRAPPERS, CLASS, "title", "type", "name", "class_name"))


_NODE: Final = re.compile(
    r"(?:Node|Doc) ID: (?P<id>\S{1,512})\nText: (?P<wrapped>.*?)(?:\nScore: +(?:None|(?P<score>-?\d{1,12}\.\d{1,12})))?"
    r"|> Source \(Doc id: (?P<doc_id>[^()\n]{1,512})\): (?P<text>.*)",
    re.DOTALL,
)
_NODES: Final = ("Node ID: ", "Doc ID: ", "> Source (Doc id: ")
_NEXT_NODE: Final = re.compile(r"\n(?=(?:Node|Doc) ID: |> Source \(Doc id: )")
CUT_MARK: Final = "..."


def _printed_nodes(text: str) -> list[dict[str, Any]] | None:
    # `str(node)`, or `get_formatted_sources()`; None otherwise.
    if not text.startswith(_NODES):
        return None
    matches = [_NODE.fullmatch(piece.strip()) for piece in _NEXT_NODE.split(text)]
    nodes: list[dict[str, Any]] = []
    for match in matches:
        if match is None:
            return None
        wrapped = match["wrapped"]
        whole = match["text"] if wrapped is None else wrapped.replace("-\n", "-").replace("\n", " ")
        if whole.endswith(CUT_MARK):
            raise UnreadableError(
                f"the text of the node {match['id'] or match['doc_id']} ends with {CUT_MARK}, where LlamaIndex cuts: "
                "give node.get_content() of each node"
            )
        node = {"text": whole, "id": match["id"] or match["doc_id"]}
        nodes.append(node if match["score"] is None else {**node, "score": float(match["score"])})
    return nodes


def output_of_run(text: str) -> str | None:
    """Return the final output in the text of a run of OpenAI's agents, another text as it is; None without an output.

    Raises:
        UnreadableError: the text is that of an error, or was cut.
    """
    if not text.startswith(("RunResult:\n- ", "RunResultStreaming:\n- ", "RunErrorDetails:\n- ")):
        return text
    _, output, rest = text.partition("\n- Final output (")
    kind, _, rest = rest.partition("):\n")
    lines, end, _ = rest.rpartition(" new item(s)\n")[0].rpartition("\n- ")
    if not output or not end:
        raise UnreadableError("it is a printed run of an agent without its whole output: give result.final_output")
    return None if kind == "NoneType" else "\n".join(line.removeprefix("    ") for line in lines.split("\n"))


_ANSWER: Final = re.compile(
    r"""GeneratedAnswer\(data=(?P<data>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"), query=""", re.DOTALL
)


def data_of_answer(text: str) -> str:
    """Return the text of an answer that Haystack printed together with its documents; another text as it is.

    Raises:
        UnreadableError: the answer is no text.
    """
    if not text.startswith("GeneratedAnswer("):
        return text
    # The documents after it need not be read: an apostrophe in one ends its text too early.
    match = _ANSWER.match(text)
    if match is None:
        raise UnreadableError("it is a printed GeneratedAnswer whose data is no text: give answer.data as text")
    return str(literal_of(match["data"]))


def spelled_documents(value: Any, depth: int = 0) -> Any:
    """Return a value in which the texts that spell lists or objects of documents are these."""
    if isinstance(value, str):
        return _spelled_text(value, depth)
    if isinstance(value, list | tuple):
        return _spelled_list([item for item in value if not is_missing(item)], depth)
    return value


def _spelled_text(text: str, depth: int) -> Any:
    stripped = text.strip(" \t\r\n\ufeff")
    if says_nothing(stripped):
        return []
    if _TABLE_END.search(stripped[-80:]) or (stripped[0] == "<" and _ARRAY_START.match(stripped)):
        raise UnreadableError("it is the text of a pandas table, which may be cut: write a JSON list of texts")
    if (nodes := _printed_nodes(stripped)) is not None:
        return nodes
    value = value_of(stripped, strict=True)
    if value == stripped and stripped.startswith(('[""', '{""')):
        value = value_of(stripped.replace('""', '"'), strict=True)  # quotes that a writer of CSV doubled once too often
    if isinstance(value, str) and value in (stripped, stripped.replace('""', '"')):
        lines = [line.strip() for line in stripped.splitlines() if line.strip()]
        if len(lines) > 1 and all(line[0] == "{" and line[-1] == "}" for line in lines):
            rows = [_value_or_none(line) for line in lines]
            if all(isinstance(row, dict) for row in rows):
                return rows
        if _begins_a_value(stripped):
            raise UnreadableError(
                "it begins a list or an object and cannot be read as one: write a JSON list of texts, such as "
                '["first text", "second text"]'
            )
        return stripped
    return spelled_documents(value, depth + 1) if isinstance(value, str | list) and depth < DEPTH_MAX else value


def _begins_a_value(text: str) -> bool:
    if text[0] == "[" or _TUPLE_START.match(text):
        return closing_place(text) in (-1, len(text) - 1)
    return text[0] != '"' and bool(_MAPPING_START.match(text) or _ARRAY_START.match(text))


def _spelled_list(items: Sequence[Any], depth: int) -> Any:
    if items and all(isinstance(item, str) for item in items):
        return _spelled_texts(items, depth)
    if len(items) > 1 and all(isinstance(item, list | tuple) for item in items):
        scored = all(len(item) == 2 and isinstance(item[1], int | float | list) for item in items)
        if not scored:
            raise UnreadableError("it has lists in a list: give one list with a text for each document")
    if len(items) == 1 and isinstance(items[0], list | tuple) and depth < DEPTH_MAX:
        inner = items[0]
        if not (len(inner) == 2 and isinstance(inner[0], str) and isinstance(inner[1], int | float | list)):
            return spelled_documents(inner, depth + 1)
    return list(items)


def _spelled_texts(texts: Sequence[str], depth: int) -> Any:
    nodes = [_printed_nodes(text) for text in texts]
    if any(nodes):
        return [node for text, printed in zip(texts, nodes, strict=True) for node in printed or (text,)]
    if len(texts) == 1 and depth < DEPTH_MAX and spells_a_list(texts[0]):
        return _spelled_text(texts[0], depth + 1)
    if all(text.lstrip()[:1] == "[" for text in texts) and all(
        isinstance(_value_or_none(text), list) for text in texts
    ):
        raise UnreadableError("each of its texts is a list: give one list with a text for each document")
    if all(text.lstrip()[:1] == "{" or "=" in text[:FIELD_CHARS] for text in texts):
        documents = list(takewhile(_is_document, map(_value_or_none, texts)))
        if len(documents) == len(texts):
            return documents
    return list(texts)


def _is_document(item: Any) -> bool:
    if isinstance(item, Constructed):
        return not item.keys().isdisjoint((*TEXTS, *WRAPPERS))
    return isinstance(item, dict) and item.keys() <= _OF_DOCUMENTS


def spells_a_list(text: str) -> bool:
    """Return whether a text is a list, or the beginning of one with quotes: no document is."""
    return text.lstrip()[:1] == "[" and (_QUOTED_LIST.match(text) is not None or isinstance(_value_or_none(text), list))


def _value_or_none(text: str) -> Any:
    try:
        return literal_of(text) if text.lstrip()[:1] in ("[", "{") else value_of(text)
    except ValueError:
        return None


def spelled(value: Any) -> Any:
    """Return the list or object that a whole text spells; another text, or what is no text, as it is.

    Raises:
        UnreadableError: the text is the beginning of a list or an object, or has too many values.
    """
    return value_of(value, strict=True) if isinstance(value, str) else value
