"""Texts that may be several documents, joined to one: which they are cannot be known, so they are refused.

Source: DeepEval joins the documents of a test case with `|` in CSV and JSON Lines, earlier with `;`
(confident-ai/deepeval, `deepeval/dataset/utils.py`). Only documents with a marker of their source can be separated.
"""

import re
from typing import Any, Final

from ..shapes.literals import UnreadableError
from .places import plain_name

_SOURCE: Final = re.compile(r"(?:^|\|)deepeval_source=([^\n|]{0,1000}?),deepeval_context=")
_LISTS: Final = ("retrieval_context", "retrieved_contexts")
"""Columns that are lists in the tools which write them, so that a separator in a text is surely one of documents."""
_ENDED: Final = re.compile(r"[.!?\u2026\u3002]['\"\u201d)\]]?[;|] ?(?=[^\s|;])")
"""A separator after the end of a sentence: in prose a sentence ends with one mark."""
_MARKS: Final = re.compile(r"\|\|\||\[SEP\]|<SEP>|</s>|<\|endoftext\|>|[\x1e\x1f]", re.IGNORECASE)
_LINE: Final = re.compile(r"^ {0,3}(-{3,}|={3,}|\*{3,}|_{3,}|#{3,}|~{3,})[ \t]{0,9}$", re.MULTILINE)
_NUMBERED: Final = re.compile(
    r"^[^\w\n]{0,3}(?:document|doc|chunk|passage|context|source)[^\w\n]{0,2}([12])\b", re.MULTILINE | re.IGNORECASE
)


def separated(value: Any) -> Any:
    """Return documents with a marker of their source as objects with id and text; other documents as they are."""
    if isinstance(value, list):
        return [separated(item) if isinstance(item, str) else item for item in value]
    if not isinstance(value, str) or "deepeval_source=" not in value:
        return value
    _, *parts = _SOURCE.split(value)
    documents = [{"id": name, "text": text} for name, text in zip(parts[::2], parts[1::2], strict=True)]
    return documents[0] if len(documents) == 1 else documents or value


def refuse_joined(column: str, text: str) -> None:
    """Refuse a text that may be several documents; a column with a number has one.

    Raises:
        UnreadableError: the text has a separator of documents.
    """
    separator = None if column[-1:].isdecimal() else _separator(text, in_list=plain_name(column) in _LISTS)
    if separator is not None:
        raise UnreadableError(
            f"it is one text and may be several documents, joined by {separator!r}: write a JSON list of texts, such "
            'as ["first text", "second text"], also if it is one (DeepEval: save the cases as JSON)'
        )


def _separator(text: str, *, in_list: bool) -> str | None:
    text = text.replace("\r\n", "\n").strip()
    is_table = text[:1] == "|" or "\n|" in text
    for mark in "|;" if in_list else "":
        if mark in text and not (mark == "|" and is_table):
            return mark
    ended, mark_in = _ENDED.search(text), _MARKS.search(text)
    if mark_in or (ended and not is_table):
        return mark_in[0] if mark_in else ended[0].strip()[-1] if ended else None
    starts = {start[1]: start[0] for start in _NUMBERED.finditer(text)}
    if len(starts) == 2:
        return starts["2"]
    alone = list(_LINE.finditer(text))
    # Under a heading such a line has the length of the heading, and front matter begins with one.
    inner = (line for line in alone if alone[0].start() > 0 and line.end() < len(text))
    lone = (line for line in inner if len(line[1]) == 3 or text[line.start() - 2 : line.start()] == "\n\n")
    return next((line[1] for line in lone), None)
