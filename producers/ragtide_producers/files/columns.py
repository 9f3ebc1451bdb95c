"""The columns of other tools as fields of an interaction: Ragas, DeepEval, TruLens, LangSmith, Phoenix, and data sets.

A field under its own name always wins. Otherwise the first known column of the row counts, and every other column
becomes metadata.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from math import isnan
from typing import Any, Final

from ragtide_schemas import InvalidEntryError, RagInteraction, Reason, RetrievedDocument
from ragtide_schemas.interaction import last_turns
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.suggestions import closest

from ..shapes.document_keys import is_missing
from ..shapes.documents import Found, documents_in
from ..shapes.literals import BrokenTextError, UnreadableError, literal_of, value_of
from ..shapes.spelled import spelled, spells_a_list
from ..shapes.texts import text_in, text_of_number
from ..shapes.turns import HISTORY_KEYS, Turn, turns_of, without_present
from .cells import MISSING
from .that_fit import that_fit
from .usage import COLUMNS as USAGE_COLUMNS
from .usage import read_usage, usage_in

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("query", "user_input", "user_query", "input", "inputs", "prompt", "attributes.input.value"),
    "documents": (
        "retrieved_contexts", "retrieval_context", "retrieved_context", "retrieved_documents", "contexts", "context",
        "passages", "passage", "chunks", "source_documents", "attributes.retrieval.documents", "paragraphs", "ctxs",
        "docs", "retrieved_docs", "retrieved_chunks", "source_nodes",
    ),
    "response": (
        "actual_output", "answer", "generated_answer", "generation", "prediction", "output", "outputs",
        "attributes.output.value",
    ),
    "reference_answer": (
        "reference", "ground_truth", "ground_truths", "gt_answer", "expected_output", "reference_outputs",
        "reference_output", "expected",
    ),
    "steps": ("retrieval_steps",),
    "interaction_id": (
        "item_id", "query_id", "sample_id", "example_id", "record_id", "run_id", "test_case_id",
        "context.span_id", "id",
    ),
}  # fmt: skip
"""The columns of each field, the surest first, in lower case with underscores."""

WHOLE_CONVERSATIONS: Final = ("messages", "conversation")
"""Columns of a whole conversation: those that end with the question of the row have its history."""

TARGETS: Final = (*COLUMNS, "history", "pipeline", "session_id", "user_id", "cluster", "occurred_at")
"""Fields that `--map` may name."""

TYPO: Final = 0.8
"""Least likeness at which an unknown column is a misspelled field, and not metadata."""

_FIELDS: Final = frozenset(RagInteraction.model_fields)
_DOCUMENT_LISTS: Final = ("documents", "retrieved_documents", "contexts", "context", "source_documents", "docs")
_DOCUMENT_FIELDS: Final = frozenset(RetrievedDocument.model_fields)
_KNOWN: Final = frozenset((*(name for names in COLUMNS.values() for name in names), *USAGE_COLUMNS))
_DOTTED: Final = tuple(name for name in sorted(_KNOWN) if "." in name)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def plain_name(column: str) -> str:
    """Return a name in lower case with underscores: `User Input` and `userInput` are `user_input`."""
    return "_".join(_HUMP.sub(" ", column).replace("_", " ").replace("-", " ").split()).lower()


def is_known(column: str) -> bool:
    """Return whether a column is a field of an interaction, or has one under another name."""
    name = plain_name(column)
    return name in _FIELDS or name in _KNOWN or name.partition(".")[0] in _FIELDS


def keeps_words(column: str, field: str) -> bool:
    """Return whether a column may have a field, so that its words are read with those of the field."""
    name = plain_name(column)
    return name == field or name in COLUMNS[field]


def interaction_fields(
    row: Mapping[str, Any], mapping: Mapping[str, str], *, cells: bool = False
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of an interaction in a row, and the column of each field that has another name.

    Args:
        row: column names and values.
        mapping: column by field, as the user stated it.
        cells: whether the values are texts of cells.

    Raises:
        InvalidEntryError: a stated column is missing, a column is a misspelled field, or a value cannot be read.
    """
    row = _with_dotted_names(row)
    own = _own_columns(row, mapping)
    fields = {field: _own_value(field, column, row[column], cells=cells) for field, column in own.items()}
    taken = _taken(row, own, fields, mapping)
    for field, column in taken.items():
        fields[field] = read_value(field, column, row[column], cells=cells)
    if "documents" not in fields and taken.get("response"):
        found = _documents_beside(row[taken["response"]])
        if found is not None:
            fields["documents"], taken["documents"] = found, taken["response"]
    _put_history(row, fields, taken)
    not_usage = _put_usage(row, fields, taken)
    used = {*taken.values(), *own.values()}
    rest = {name: value for name, value in row.items() if name not in used and value is not None}
    _refuse_typos(rest, fields)
    _refuse_missing(row, fields)
    if not_usage is not None:
        rest["usage"] = not_usage
    given = fields.get("metadata") or {}
    if rest and isinstance(given, dict):
        fields["metadata"] = {**that_fit(rest, given), **given}
    return {name: value for name, value in fields.items() if value is not None}, taken


def _own_columns(row: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each field that the row has under its own name, in any spelling of it."""
    own = {name: name for name in row if name in _FIELDS and name not in mapping}
    for name in row:
        field = plain_name(name)
        if name not in _FIELDS and field in _FIELDS and field not in mapping and name not in mapping.values():
            _refuse_twins(row, own.setdefault(field, name), name)
    return own


def _refuse_twins(row: Mapping[str, Any], first: str, second: str) -> None:
    if first != second and row[first] != row[second]:
        raise InvalidEntryError(
            Reason.INVALID, f"the columns {first} and {second} have different values for one field: remove one of them"
        )


def _own_value(field: str, column: str, value: Any, *, cells: bool) -> Any:
    """Return the value of a field under its own name: a text is taken as it stands."""
    if field == "documents":
        if isinstance(value, str) and cells and value.lstrip()[:1] == "[":
            with suppress(ValueError):
                value = literal_of(value)
        kept = [item for item in value if not is_missing(item)] if isinstance(value, list | tuple) else None
        spells = kept is not None and len(kept) == 1 and isinstance(kept[0], str) and spells_a_list(kept[0])
        if kept is not None and not spells and all(_is_plain_document(item) for item in kept):
            return kept
        return None if value is None and not cells else read_value(field, column, value, cells=cells)
    if field in ("question", "response", "reference_answer"):
        if value is None:
            return _EMPTY.get(field) if cells else None
        if not isinstance(value, str) or (cells and value.strip() in MISSING):
            return read_value(field, column, value, cells=cells)
    if field == "interaction_id" and isinstance(value, int | float) and not isinstance(value, bool):
        return text_of_number(value)
    return read_value(field, column, value, cells=cells) if field == "steps" and isinstance(value, str) else value


def _is_plain_document(item: Any) -> bool:
    return isinstance(item, str) or (isinstance(item, dict) and "text" in item and item.keys() <= _DOCUMENT_FIELDS)


def _with_dotted_names(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row with known columns such as `attributes.input.value` under that name; CSV reads them as nested."""
    found = dict(row)
    for name in _DOTTED:
        first, _, rest = name.partition(".")
        parent = found.get(first)
        if isinstance(parent, dict) and rest in parent:
            found[name] = parent[rest]
            left = {key: value for key, value in parent.items() if key != rest}
            found = {key: value for key, value in found.items() if key != first} | ({first: left} if left else {})
    return found


def _taken(
    row: Mapping[str, Any], own: Mapping[str, str], fields: Mapping[str, Any], mapping: Mapping[str, str]
) -> dict[str, str]:
    """Return the column of each field that the row has under another name."""
    for field, column in mapping.items():
        if column not in row:
            listed = ", ".join(row)[:200]
            raise InvalidEntryError(
                Reason.INVALID, f"{field} is mapped to the column {column!r}, which the row lacks; it has: {listed}"
            )
    by_name: dict[str, list[str]] = {}
    for name in row:
        if name not in own.values():
            by_name.setdefault(plain_name(name), []).append(name)
    taken = dict(mapping)
    for field, columns in COLUMNS.items():
        if fields.get(field) is not None or field in mapping:
            continue
        known = [name for column in columns for name in by_name.get(column, ()) if name not in taken.values()]
        if not known:
            continue
        for twin in by_name[plain_name(known[0])]:
            _refuse_twins(row, known[0], twin)
        taken[field] = _first_given(field, known, row)
    return taken


def _first_given(field: str, known: Sequence[str], row: Mapping[str, Any]) -> str:
    """Return the first known column; the first that has a value, for a field of which others may have none."""
    first = known[0]
    if row[first] is not None:
        return first
    others = [name for name in known if row[name] is not None and row[name] not in ("", [])]
    if others and field in _EMPTY:
        raise InvalidEntryError(
            Reason.INVALID,
            f"{field} may be the column {first}, which is empty, or {others[0]}: say which with --map {field}=COLUMN",
        )
    return others[0] if others else first


def _put_history(row: Mapping[str, Any], fields: dict[str, Any], taken: dict[str, str]) -> None:
    """Put the last turns before the question of a row into its fields.

    A stated column, or one named `history`, must be readable. Another column that is not readable becomes metadata.
    """
    if "history" in fields:
        given = fields["history"] if "history" in taken else read_value("history", "history", fields["history"])
        fields["history"] = last_turns(without_present(given or (), fields.get("question"))) or None
        return
    found = history_in(row, fields.get("question"), without=taken.values())
    if found is not None:
        taken["history"], fields["history"] = found[0], found[1] or None


def _put_usage(row: Mapping[str, Any], fields: dict[str, Any], taken: dict[str, str]) -> Any:
    """Put the usage of an answer into its fields; return what the field has that is no usage.

    Numbers in a column of their own complete those of the field `usage`.
    """
    given = fields.pop("usage", None)
    if isinstance(given, str):
        with suppress(ValueError):
            given = value_of(given)
    usage, rest = read_usage(given, _by_plain_name(given) if isinstance(given, Mapping) else {})
    columns = {name: column for name, column in _by_plain_name(row).items() if column not in taken.values()}
    numbers, of = usage_in(row, columns)
    for field, number in numbers.items():
        if usage is None or usage.get(field) is None:
            usage = {**(usage or {}), field: number}
            taken[f"usage.{field}"] = of[field]
    if usage is not None:
        fields["usage"] = usage
    return rest


def _by_plain_name(row: Mapping[str, Any]) -> dict[str, str]:
    return {plain_name(str(name)): name for name in row}


def history_in(
    row: Mapping[str, Any], question: object, *, without: Collection[str] = ()
) -> tuple[str, list[Turn]] | None:
    """Return the column that has the history of a row, and the last turns before the question; None without one.

    Args:
        row: column names and values.
        question: question of the row.
        without: columns that hold something else.
    """
    by_name = {plain_name(name): name for name in row if name not in without}
    for name in (*HISTORY_KEYS, *WHOLE_CONVERSATIONS):
        column = by_name.get(name)
        turns = None if column is None else _turns(row[column])
        if column is None or not turns:
            continue
        before = without_present(turns, question)
        if len(before) < len(turns) or name in HISTORY_KEYS:
            return column, last_turns(before)
    return None


def _turns(value: Any) -> list[Turn] | None:
    try:
        return turns_of(value_of(value) if isinstance(value, str) else value)
    except BrokenTextError:
        return None


def read_value(field: str, column: str, value: Any, *, cells: bool = False) -> Any:
    """Return the value of a column as that of a field; a text may spell a list or an object.

    Raises:
        InvalidEntryError: the value is cut, could be read in two ways, or has no such field.
    """
    if value is None or (isinstance(value, float) and isnan(value)):
        return _EMPTY.get(field)
    if field not in _READERS:
        return value
    if isinstance(value, str) and value.strip() in MISSING and field not in ("documents", "interaction_id"):
        return _word(field, column, value, cells=cells)
    try:
        if field == "documents":
            return _documents(value)
        if isinstance(value, str) and field in ("history", "steps"):
            value = value_of(value) if field == "history" else spelled(value)
        found = _READERS[field](value)
    except (BrokenTextError, UnreadableError) as error:
        cut = "is cut: " if isinstance(error, BrokenTextError) else ""
        shown = "" if cut else f" is {str(value)[:60]!r}:"
        raise InvalidEntryError(Reason.INVALID, f"{field}, from the column {column},{shown} {cut}{error}") from None
    if found is None and field != "interaction_id" and value not in ("", [], {}):
        raise InvalidEntryError(
            Reason.INVALID,
            f"the column {column} has no {field} that can be read: {str(value)[:60]!r}: name the column of each field "
            f"with --map {field}=COLUMN",
        )
    return _EMPTY.get(field) if found is None else found


def _id(value: Any) -> str | None:
    if isinstance(value, float):
        return text_of_number(value)
    return str(value)[:NAME_MAX_CHARS] if isinstance(value, str | int) else None


def _word(field: str, column: str, word: str, *, cells: bool) -> str | None:
    """Return a word such as `nan` or `None` in a column of texts: it may be a missing value, or an answer."""
    if not word.strip():
        return _EMPTY.get(field)
    if field == "reference_answer" and (cells or word.strip() in _NEVER_WORDS):
        return None
    if cells or word.strip() in _NEVER_WORDS:
        raise InvalidEntryError(
            Reason.INVALID,
            f"{field}, from the column {column}, is {word!r}, which may be a missing value: leave the cell "
            f'empty, or write "{word.strip()}" with quotes as part of the cell if the word is meant',
        )
    return word


_NEVER_WORDS: Final = frozenset(("nan", "NaN", "-nan", "-NaN", "NaT", "<NA>"))
"""Words of a missing value that are none where there is a null, as in JSON."""


def _documents(value: Any) -> list[dict[str, Any]]:
    found = documents_in(value)
    if found is None:
        raise UnreadableError("no documents can be read from it: give a list of texts, or of objects with text")
    if any(document.text is None for document in found):
        raise UnreadableError("it has ids and no texts: give the text of each document")
    return [_document(document) for document in found]


def _document(found: Found) -> dict[str, Any]:
    named = found.id if found.id and len(found.id) <= NAME_MAX_CHARS else None
    fields = {"text": found.text, "id": named, "score": found.score}
    return {name: value for name, value in fields.items() if value is not None}


def _documents_beside(value: Any) -> list[dict[str, Any]] | None:
    """Return the documents that stand beside the answer in one value, as in outputs of LangSmith."""
    try:
        found = spelled(value) if isinstance(value, str) else value
    except BrokenTextError:
        return None
    if not isinstance(found, dict):
        return None
    for key in _DOCUMENT_LISTS:
        if isinstance(found.get(key), list):
            try:
                return _documents(found[key])
            except UnreadableError:
                continue
    return None


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "question": lambda value: text_in(value, "question"),
    "documents": _documents,
    "response": lambda value: text_in(value, "answer"),
    "reference_answer": lambda value: text_in(value, "reference"),
    "history": turns_of,
    "interaction_id": _id,
    "steps": lambda value: value if isinstance(value, list) else None,
}
_EMPTY: Final[Mapping[str, Any]] = {"documents": [], "response": ""}
"""Values of an empty cell: nothing was retrieved, there was no answer."""


def _refuse_missing(row: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    for name in ("question", "documents", "response"):
        if fields.get(name) is None:
            raise InvalidEntryError(
                Reason.INVALID,
                f"{name} is missing: add it, or name its column with --map {name}=COLUMN; the row has: "
                f"{', '.join(row)[:200] or 'nothing'}",
            )


def _refuse_typos(rest: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    # `story` and `step` are columns of some data sets, and like `history` and `steps`.
    missing = [name for name in _FIELDS if name not in fields and name not in ("history", "steps")]
    for name in rest:
        meant = closest(name, missing, likeness=TYPO)
        if meant is not None:
            raise InvalidEntryError(
                Reason.INVALID,
                f"{name} is not a field of this schema; did you mean {meant}? Correct its name, or move it to metadata",
            )
