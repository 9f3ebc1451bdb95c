"""Documents and answers in the cells of a table: texts of JSON, Python, NumPy and pandas, lists, and objects.

What cannot be read without guessing raises `CellError`; it is never taken as a text.
"""

import re
from collections.abc import Sequence
from math import isfinite, isnan
from typing import Any, Final

from ragtide_schemas.limits import NAME_MAX_CHARS

from ..shapes.documents import IDS, SCORES, TEXTS, WRAPPERS, Found, documents_of, is_missing, says_nothing
from ..shapes.literals import CLASS, BrokenTextError, is_cut, literal_of, value_of
from ..shapes.messages import messages_of
from ..shapes.texts import ANSWER_KEYS, answer_in

DEPTH_MAX: Final = 3
"""Times that a text may spell a text that spells a value."""
MISSING: Final = frozenset(
    [
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "NaT",
        "None",
        "n/a",
        "nan",
        "null",
        "",
    ]
)
"""Texts that pandas reads as a missing value."""
MAY_BE_TEXT: Final = frozenset(("#NA", "N/A", "NA", "n/a"))
"""Those of them that are a name elsewhere, such as the country Namibia."""
_QUOTED_LIST: Final = re.compile(r"\s*\[\s*['\"]")
_MAPPING_START: Final = re.compile(r"\{\s*['\"]")
_TUPLE_START: Final = re.compile(r"\(\s*['\"]")
_ARRAY_START: Final = re.compile(
    r"(?:np\.|numpy\.|pd\.|pandas\.)?(?:array|Series|Index|DataFrame|deque|tensor)\(|<\w{1,40}Array>"
)
_TABLE_END: Final = re.compile(r"dtype: \w{1,40}$|\[\d{1,12} rows x \d{1,12} columns\]$")
_OF_DOCUMENTS: Final = frozenset((*TEXTS, *IDS, *SCORES, *WRAPPERS, CLASS, "title", "type", "name"))


class CellError(ValueError):
    """A value cannot be read without guessing; the message says why, and the remedy."""


def documents_in(value: Any) -> list[dict[str, Any]]:
    """Return the documents in a value of a column, best first; an empty list if nothing was retrieved.

    Raises:
        CellError: the value has no documents, or could be read in two ways.
    """
    found = documents_of(_spelled_documents(value, 0)) if not is_missing(value) else []
    if found is None:
        raise CellError("no documents can be read from it: give a list of texts, or of objects with text")
    if any(document.text is None for document in found):
        raise CellError("it has ids and no texts: give the text of each document")
    return [_document(document) for document in found]


def _document(found: Found) -> dict[str, Any]:
    named = found.id if found.id and len(found.id) <= NAME_MAX_CHARS else None
    fields = {"text": found.text, "id": named, "score": found.score}
    return {name: value for name, value in fields.items() if value is not None}


def _spelled_documents(value: Any, depth: int) -> Any:
    """Return a value in which the texts that spell lists or objects of documents are these."""
    if isinstance(value, str):
        return _of_text(value, depth)
    if isinstance(value, list | tuple):
        return _of_list([item for item in value if not is_missing(item)], depth)
    return value


def _of_text(text: str, depth: int) -> Any:
    stripped = text.strip(" \t\r\n\ufeff")
    if says_nothing(stripped):
        return []
    if _TABLE_END.search(stripped[-80:]) or (stripped[0] == "<" and _ARRAY_START.match(stripped)):
        raise CellError("it is the text of a pandas table, which may be cut: write a JSON list of texts")
    if stripped[0] not in '[{("' and not _ARRAY_START.match(stripped):
        found = value_of(text)  # a text such as `Document(page_content='...')`
        return stripped if isinstance(found, str) else found
    try:
        found = _literal(stripped)
    except ValueError as error:
        if _begins_a_value(stripped):
            raise CellError(f"it begins a list or an object and cannot be read as one ({error}): {_REMEDY}") from None
        return stripped
    if isinstance(found, str | list) and depth < DEPTH_MAX:
        return _spelled_documents(found, depth + 1)
    return found


_REMEDY: Final = 'write a JSON list of texts, such as ["first text", "second text"]'


def _literal(text: str) -> Any:
    try:
        return literal_of(text)
    except ValueError:
        if not text.startswith(('[""', '{""')):
            raise
        return literal_of(text.replace('""', '"'))  # quotes that a writer of CSV doubled once too often


def _begins_a_value(text: str) -> bool:
    """Whether a text that spells no value may have been meant as one."""
    if text[0] == "[":
        end = _closing(text)
        return end in (-1, len(text) - 1)
    if text[0] == "(":
        return bool(_TUPLE_START.match(text)) and _closing(text) in (-1, len(text) - 1)
    return text[0] != '"' and bool(_MAPPING_START.match(text) or _ARRAY_START.match(text))


def _closing(text: str) -> int:
    """Return the place of the bracket that closes the first one; -1 if none does."""
    opening, closing = text[0], {"[": "]", "(": ")"}[text[0]]
    depth = 0
    for place, character in enumerate(text):
        depth += (character == opening) - (character == closing)
        if not depth:
            return place
    return -1


def _of_list(items: Sequence[Any], depth: int) -> Any:
    if items and all(isinstance(item, str) for item in items):
        return _of_texts(items, depth)
    if len(items) > 1 and all(isinstance(item, list | tuple) for item in items):
        scored = all(len(item) == 2 and isinstance(item[1], int | float | list) for item in items)
        if not scored:
            raise CellError("it has lists in a list: give one list with a text for each document")
    if len(items) == 1 and isinstance(items[0], list | tuple) and depth < DEPTH_MAX:
        inner = items[0]
        if not (len(inner) == 2 and isinstance(inner[0], str) and isinstance(inner[1], int | float | list)):
            return _spelled_documents(inner, depth + 1)
    return list(items)


def _of_texts(texts: Sequence[str], depth: int) -> Any:
    """Return texts of which one spells a whole list, or each spells an object that is surely a document."""
    if len(texts) == 1 and depth < DEPTH_MAX and spells_a_list(texts[0]):
        return _of_text(texts[0], depth + 1)
    if all(text.lstrip()[:1] == "[" for text in texts) and all(isinstance(_tried(text), list) for text in texts):
        raise CellError("each of its texts is a list: give one list with a text for each document")
    if all(text.lstrip()[:1] == "{" for text in texts):
        found = [_tried(text) for text in texts]
        if all(isinstance(item, dict) and item.keys() <= _OF_DOCUMENTS for item in found):
            return found
    return list(texts)


def spells_a_list(text: str) -> bool:
    """Return whether a text is a list, or the beginning of one with quotes: no document is."""
    return text.lstrip()[:1] == "[" and (_QUOTED_LIST.match(text) is not None or isinstance(_tried(text), list))


def _tried(text: str) -> Any:
    try:
        return literal_of(text)
    except ValueError:
        return None


def spelled(text: str) -> Any:
    """Return the list or object that a whole text spells, or the text.

    Raises:
        BrokenTextError: the text is the beginning of a JSON list or object.
    """
    stripped = text.strip()
    if stripped[:1] not in ("[", "{", "(", '"') or not stripped:
        return value_of(text)
    try:
        return literal_of(stripped)
    except ValueError:
        if is_cut(stripped):
            raise BrokenTextError(f"{stripped[:40]!r} begins a value that does not end") from None
        return text


def answer_of(value: Any) -> str | None:
    """Return the one answer in a value of a column; None without one. A number is its text, true is "true".

    >>> answer_of(1889), answer_of(True), answer_of(["In 1889."]), answer_of(4.0), answer_of(None)
    ('1889', 'true', 'In 1889.', '4', None)

    Raises:
        CellError: there are several answers.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return text_of_number(value)
    if isinstance(value, list) and not messages_of(value):
        given = [item for item in value if item != "" and not _is_nothing(item)]
        texts = {item.strip() if isinstance(item, str) else str(item) for item in given}
        if len(texts) > 1:
            raise CellError("it has several answers: give the one that was shown to the user")
        return answer_of(given[0]) if given else None
    if isinstance(value, dict):
        for key in ANSWER_KEYS:
            if isinstance(value.get(key), int | float) or (isinstance(value.get(key), list) and value[key]):
                found = answer_of(value[key])
                if found is not None:
                    return found
            elif value.get(key):
                break
    return answer_in(value, ANSWER_KEYS)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def text_of_number(value: float) -> str | None:
    """Return a number as a text, a whole one without a point; None for NaN.

    >>> text_of_number(1889.0), text_of_number(0.5), text_of_number(float("nan"))
    ('1889', '0.5', None)
    """
    if _is_nothing(value):
        return None
    if isinstance(value, float) and isfinite(value) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
