"""The columns of other tools as fields of an interaction: Ragas, DeepEval, TruLens, LangSmith, Phoenix, and data sets.

A field under its own name always wins. Otherwise the first known column of the row counts, and every other column
becomes metadata.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from ragtide_schemas import InvalidEntryError, RagInteraction, Reason
from ragtide_schemas.history import last_turns
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.suggestions import closest

from ..shapes.documents import Found, documents_of
from ..shapes.literals import BrokenTextError, value_of
from ..shapes.texts import ANSWER_KEYS, QUESTION_KEYS, answer_in, question_in
from ..shapes.turns import HISTORY_KEYS, Turn, turns_of, without_present
from .that_fit import that_fit

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("query", "user_input", "user_query", "input", "inputs", "prompt", "attributes.input.value"),
    "documents": (
        "retrieved_contexts", "retrieval_context", "retrieved_context", "retrieved_documents", "contexts", "context",
        "passages", "passage", "chunks", "source_documents", "attributes.retrieval.documents",
    ),
    "response": (
        "actual_output", "answer", "generated_answer", "generation", "prediction", "output", "outputs",
        "attributes.output.value",
    ),
    "reference_answer": (
        "reference", "ground_truth", "ground_truths", "gt_answer", "expected_output", "reference_outputs",
        "reference_output", "expected",
    ),
    "interaction_id": (
        "item_id", "query_id", "sample_id", "example_id", "record_id", "run_id", "test_case_id",
        "context.span_id", "id",
    ),
}  # fmt: skip
"""The columns of each field, the surest first, in lower case with underscores."""

WHOLE_CONVERSATIONS: Final = ("messages", "conversation")
"""Columns of a whole conversation: those that end with the question of the row tell its history."""

TARGETS: Final = (*COLUMNS, "history", "pipeline", "session_id", "user_id", "cluster", "occurred_at")
"""Fields that `--map` may name."""

TYPO: Final = 0.8
"""Least likeness at which an unknown column is a misspelled field, and not metadata."""

_FIELDS: Final = frozenset(RagInteraction.model_fields)
_DOCUMENT_LISTS: Final = ("documents", "retrieved_documents", "contexts", "context", "source_documents", "docs")
_DOTTED: Final = tuple(name for names in COLUMNS.values() for name in names if "." in name)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def interaction_fields(row: Mapping[str, Any], mapping: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of an interaction in a row, and the column of each field that has another name.

    Args:
        row: column names and values.
        mapping: column by field, as the user stated it.

    Raises:
        InvalidEntryError: a stated column is missing, a column is a misspelled field, or a value cannot be read.
    """
    row = _with_dotted_names(row)
    fields = {name: value for name, value in row.items() if name in _FIELDS and name not in mapping}
    taken = _taken(row, fields, mapping)
    for field, column in taken.items():
        fields[field] = read_value(field, column, row[column])
    if "documents" not in fields and taken.get("response"):
        found = _documents_beside(row[taken["response"]])
        if found is not None:
            fields["documents"], taken["documents"] = found, taken["response"]
    _put_history(row, fields, taken)
    used = set(taken.values())
    rest = {name: value for name, value in row.items() if name not in _FIELDS and name not in used}
    _refuse_typos(rest, fields)
    _refuse_missing(row, fields)
    own = fields.get("metadata") or {}
    if rest and isinstance(own, dict):
        fields["metadata"] = {**that_fit(rest, own), **own}
    return {name: value for name, value in fields.items() if value is not None}, taken


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


def _taken(row: Mapping[str, Any], fields: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each field that the row has under another name."""
    for field, column in mapping.items():
        if column not in row:
            listed = ", ".join(row)[:200]
            raise InvalidEntryError(
                Reason.INVALID, f"{field} is mapped to the column {column!r}, which the row lacks; it has: {listed}"
            )
    by_name = {_HUMP.sub("_", name).lower(): name for name in reversed(list(row))}
    taken = dict(mapping)
    for field, columns in COLUMNS.items():
        if fields.get(field) is not None or field in mapping:
            continue
        known = (by_name[name] for name in columns if name in by_name and by_name[name] not in taken.values())
        found = next((name for name in known if name not in _FIELDS), None)
        if found is not None:
            taken[field] = found
    return taken


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


def history_in(
    row: Mapping[str, Any], question: object, *, without: Collection[str] = ()
) -> tuple[str, list[Turn]] | None:
    """Return the column that tells the history of a row, and the last turns before the question; None without one.

    Args:
        row: column names and values.
        question: question of the row.
        without: columns that hold something else.
    """
    by_name = {_HUMP.sub("_", name).lower(): name for name in row if name not in without}
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


def read_value(field: str, column: str, value: Any) -> Any:
    """Return the value of a column as that of a field; a text may spell a list or an object.

    Raises:
        InvalidEntryError: the value is cut, or has no such field.
    """
    if value is None:
        return _EMPTY.get(field)
    if field == "interaction_id":
        return str(value)[:NAME_MAX_CHARS] if isinstance(value, str | int) else None
    if field not in _READERS:
        return value
    try:
        spelled = value_of(value) if isinstance(value, str) else value
    except BrokenTextError as error:
        raise InvalidEntryError(Reason.INVALID, f"{field}, from the column {column}, is cut: {error}") from None
    found = _READERS[field](spelled)
    if found is None and spelled not in ("", [], {}):
        raise InvalidEntryError(
            Reason.INVALID,
            f"the column {column} has no {field} that can be read: {str(value)[:60]!r}: name the column of each field "
            f"with --map {field}=COLUMN",
        )
    return _EMPTY.get(field) if found is None else found


def _documents(value: Any) -> list[dict[str, Any]] | None:
    found = documents_of(value)
    if found is None or any(document.text is None for document in found):
        return None
    return [_document(document) for document in found]


def _document(found: Found) -> dict[str, Any]:
    named = found.id if found.id and len(found.id) <= NAME_MAX_CHARS else None
    fields = {"text": found.text, "id": named, "score": found.score}
    return {name: value for name, value in fields.items() if value is not None}


def _documents_beside(value: Any) -> list[dict[str, Any]] | None:
    """Return the documents that stand beside the answer in one value, as in outputs of LangSmith."""
    try:
        spelled = value_of(value) if isinstance(value, str) else value
    except BrokenTextError:
        return None
    if not isinstance(spelled, dict):
        return None
    lists = (spelled[key] for key in _DOCUMENT_LISTS if isinstance(spelled.get(key), list))
    return next((found for listed in lists if (found := _documents(listed)) is not None), None)


def _first_text(value: Any) -> Any:
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, str) and item.strip()), None)
    return answer_in(value, (*ANSWER_KEYS, "reference_answer", "expected"))


_READERS: Final = {
    "question": lambda value: question_in(value, QUESTION_KEYS),
    "documents": _documents,
    "response": lambda value: answer_in(value, ANSWER_KEYS),
    "reference_answer": _first_text,
    "history": turns_of,
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
    # `story` is a column of some data sets, and like `history`.
    missing = [name for name in _FIELDS if name not in fields and name != "history"]
    for name in rest:
        meant = closest(name, missing, likeness=TYPO)
        if meant is not None:
            raise InvalidEntryError(
                Reason.INVALID,
                f"{name} is not a field of this schema; did you mean {meant}? Correct its name, or move it to metadata",
            )
