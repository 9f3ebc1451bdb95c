"""Values of columns as those of a field: texts that spell lists or objects, words of a missing value, cut cells."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isnan
from typing import Any, Final

from ragtide_schemas.errors import invalid

from ..shapes.literals import BrokenTextError, UnreadableError
from ..shapes.replies import document_fields
from ..shapes.spelled import spelled, spelled_documents
from ..shapes.texts import text_in
from ..shapes.turns import turns_of
from .joined import refuse_joined, separated
from .usage import number_in, usage_number

TEXTS: Final = ("question", "response", "reference_answer")
"""Fields with one text."""
MISSING: Final = frozenset(
    ("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
     "NaN", "NaT", "None", "n/a", "nan", "null", "")
)  # fmt: skip
"""Texts that pandas reads as a missing value."""
MAY_BE_TEXT: Final = frozenset(("#NA", "N/A", "NA", "n/a"))
"""Those of them that are a name elsewhere, such as the country Namibia."""
TABLES: Final = ("segments", "gold_scores", "covariates", "usage", "metadata")
"""Fields of names and values, of which `--map` may name one, such as `segments.lang`."""
VERDICTS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("true", "yes", "pass", "passed", "good", "correct", "supported", "faithful", "grounded"), 1.0),
    **dict.fromkeys(
        ("false", "no", "fail", "failed", "bad", "incorrect", "wrong", "unsupported", "unfaithful", "ungrounded"), 0.0
    ),
}
"""Words of a label, as people and judges write them into a column of `gold_scores`."""
WHOLE: Final = ("population_size", "schema_version", "steps_left_out", "turn")
"""Fields that are whole numbers."""
EMPTY: Final[Mapping[str, Any]] = {"documents": [], "response": ""}
"""Values of an empty cell: nothing was retrieved, there was no answer."""
CELL_MAX_CHARS: Final = 32_767
"""Most characters of a cell of Excel: writers of such files cut a longer text without a word."""
TEXT_MAX_BYTES: Final = 65_535
"""Most bytes of a TEXT of MySQL, which cuts, too."""


def read_value(
    target: str,
    column: str,
    value: Any,
    *,
    cells: bool = False,
    own: bool = False,
    left_out: Counter[str] | None = None,
) -> Any:
    """Return the value of a column as that of a field, or of a value in a field; a text may spell a list or an object.

    Args:
        target: name of a field, or such as `segments.lang`.
        column: where the value stands.
        cells: whether the value is the text of a cell.
        own: whether the column has the name of the field, so that a text that has no answer is one.
        left_out: counts by name what was left out on purpose, such as images.

    Raises:
        InvalidEntryError: the value is cut, could be read in two ways, or has no such field.
    """
    field, _, name = target.partition(".")
    if value is None or (isinstance(value, float) and isnan(value)):
        return EMPTY.get(field)
    if name:
        return _read_named_value(field, name, column, value)
    if field not in _READERS:
        return _read_whole_number(field, value) if cells and field in WHOLE and isinstance(value, str) else value
    if isinstance(value, str) and value.strip() in MISSING and field in (*TEXTS, "history", "steps"):
        return _read_missing_word(field, column, value, cells=cells) if field in TEXTS else None
    if field in (*TEXTS, "documents"):
        refuse_cut(field, column, value)
    try:
        if field == "documents":
            value = separated(value)
            if isinstance(value, str) and isinstance(spelled_documents(value), str):
                refuse_joined(column, value)
        read = _READERS[field](value, left_out)
    except UnreadableError as error:
        if own and isinstance(error, BrokenTextError) and not {"'", '"'} & set(value):
            return value  # such as one bracket
        cut = "is cut: " if isinstance(error, BrokenTextError) else ""
        place = "" if cut else f" is {str(value)[:60]!r}:"
        raise invalid(f"{field}, from the column {column},{place} {cut}{error}") from None
    if read is None and not own and value not in ("", [], {}):
        raise invalid(
            f"the column {column} has no {field} that can be read: {str(value)[:60]!r}: name the column of each field "
            f"with --map {field}=COLUMN",
        )
    nothing = value if own and (field == "question" or not value.strip()) else EMPTY.get(field)
    return nothing if read is None else read


def _read_named_value(table: str, name: str, column: str, value: Any) -> Any:
    if table != "metadata" and isinstance(value, str) and value.strip() in MISSING:
        return None
    if table in ("metadata", "segments"):
        return value
    if table == "usage":
        value = usage_number(name, column, value)
    elif isinstance(value, str):
        verdict = VERDICTS.get(value.strip().lower()) if table == "gold_scores" else None
        value = number_in(column, value) if verdict is None else verdict
    if value is None:
        place = "" if column == f"{table}.{name}" else f", from the column {column},"
        words = ", or a word such as true and false, or pass and fail" if table == "gold_scores" else ""
        raise invalid(f"{table}.{name}{place} is no number: give one{words}")
    return value


def _gold_scores(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    words = {
        name: VERDICTS.get(label.strip().lower(), label) for name, label in value.items() if isinstance(label, str)
    }
    return {**value, **words}


def refuse_cut(field: str, column: str, value: Any) -> None:
    """Refuse a text that is as long as the longest in a cell of Excel, or in a TEXT of MySQL.

    Raises:
        InvalidEntryError: the text has exactly so many characters or bytes.
    """
    if not isinstance(value, str) or not CELL_MAX_CHARS // 2 <= len(value) <= 2 * CELL_MAX_CHARS:
        return
    text = value.replace("\r\n", "\n")
    if CELL_MAX_CHARS in (len(text), len(text.encode("utf-16-le", "surrogatepass")) // 2):
        limit = f"{CELL_MAX_CHARS:,} characters, the most of a cell of Excel"
    elif len(text.encode("utf-8", "surrogatepass")) == TEXT_MAX_BYTES and text[-1] != " ":
        limit = f"{TEXT_MAX_BYTES:,} bytes, the most of a TEXT of MySQL"
    else:
        return
    raise invalid(
        f"{field}, from the column {column}, has exactly {limit}, so its end was probably cut off: export the whole "
        "text as JSON Lines; if it is whole, add a space to it",
    )


def _read_missing_word(field: str, column: str, word: str, *, cells: bool) -> str | None:
    if not word.strip():
        return EMPTY.get(field)
    if field == "reference_answer" and (cells or word.strip() in _NEVER_WORDS):
        return None
    if cells or word.strip() in _NEVER_WORDS:
        raise invalid(
            f"{field}, from the column {column}, is {word!r}, which may be a missing value: leave the cell "
            f'empty, or write "{word.strip()}" with quotes as part of the cell if the word is meant',
        )
    return word


_NEVER_WORDS: Final = frozenset(("nan", "NaN", "-nan", "-NaN", "NaT", "<NA>"))
"""Words of a missing value that are none where there is a null, as in JSON."""


def _read_whole_number(field: str, text: str) -> int:
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError, OverflowError):
        if (number := float(text)).is_integer():
            return int(number)
    raise invalid(f"{field} is {text[:60]!r}: it must be a whole number")


_READERS: Final[Mapping[str, Callable[[Any, Counter[str] | None], Any]]] = {
    "question": lambda value, left_out: text_in(value, "question", left_out=left_out),
    "response": lambda value, left_out: text_in(value, "answer", left_out=left_out),
    "reference_answer": lambda value, left_out: text_in(value, "reference", left_out=left_out),
    "documents": lambda value, left_out: document_fields(value, left_out) if value != {} else [],
    "history": lambda value, _: turns_of(value),
    "steps": lambda value, _: steps if isinstance(steps := spelled(value), list) else None,
    "response_sentences": lambda value, _: [texts] if isinstance(texts := spelled(value), str) else texts,
    **dict.fromkeys(TABLES, lambda value, _: spelled(value)),
    "gold_scores": lambda value, _: _gold_scores(spelled(value)),
}
