"""The columns of a row as fields of an interaction: those that the user names, own names, and names of other tools.

A column that the user names wins, then a field under its own name, then the first known column. Two known columns that
could be the question, the documents, the response or the reference answer, and differ, are refused with both names.
Every other column becomes metadata.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import lru_cache, partial
from itertools import islice
from math import isnan
from typing import Any, Final

from ragtide_schemas import METRICS, AnswerUsage, InvalidEntryError, RagInteraction, RetrievedDocument
from ragtide_schemas.errors import invalid
from ragtide_schemas.interaction import last_turns
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.metric_definitions import CLOSED_FAMILIES
from ragtide_schemas.suggestions import closest, unknown

from ..given_fields import TRANSCRIPTS, stands
from ..shapes.document_keys import IDS, SCORES, is_missing
from ..shapes.literals import BrokenTextError, UnreadableError, literal_of
from ..shapes.transcripts import fields_of_transcript
from ..shapes.turns import HISTORY_KEYS, Turn, drop_present_turn, turns_of
from .places import places_in, plain_name, reached, without
from .usage import COLUMNS as USAGE_COLUMNS
from .usage import KEYS_MAX, usage_of
from .values import EMPTY, MISSING, TABLES, TEXTS, read_value, refuse_cut

_ANSWERERS: Final = (
    "generated", "predicted", "model", "llm", "rag", "bot", "chatbot", "ai", "assistant", "agent", "system",
    "candidate", "final", "pipeline", "student",
)  # fmt: skip
"""Authors of an answer that is no right answer, as they stand in names such as `model_answer`."""

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("query", "user_input", "user_query", "input", "inputs", "prompt", "attributes.input.value", "request"),
    "documents": (
        "retrieved_contexts", "retrieval_context", "retrieved_context", "retrieved_documents", "contexts", "context",
        "passages", "passage", "chunks", "source_documents", "attributes.retrieval.documents", "paragraphs", "ctxs",
        "docs", "retrieved_docs", "retrieved_chunks", "source_nodes", "retrieved_contents", "retrieved_passage",
        "retrieved_passages", "retrieval_result", "retrieval_results", "retriever_resources", "search_results",
        "context_data", "chunk", "chunk_text", "reference", "references",
    ),
    "response": (
        "actual_output", "answer", "generated_answer", "generation", "prediction", "output", "outputs",
        "attributes.output.value", "completion", "reply", "prediction_text", "response_text", "answer_text",
        "output_text", "final_response", "generated_text", "generated_texts", "pred",
        *(f"{who}_{what}" for who in _ANSWERERS for what in ("answer", "response", "output", "text", "reply")
          if what != "answer" or who != "generated"),
    ),
    "reference_answer": (
        "reference", "ground_truth", "ground_truths", "gt_answer", "expected_output", "reference_outputs",
        "reference_output", "expected", "expected_answer", "gold_answer", "gold_answers", "reference_answers",
        "correct_answer", "golden_answer", "golden_answers", "generation_gt", "expected_response", "expectations",
    ),
    "steps": ("retrieval_steps",),
    "interaction_id": (
        "item_id", "query_id", "sample_id", "example_id", "record_id", "run_id", "test_case_id",
        "question_id", "qid", "context.span_id", "id", "request_id", "message_id",
    ),
}  # fmt: skip
"""The columns of each field, the surest first, in lower case with underscores."""

TARGETS: Final = tuple(name for name in RagInteraction.model_fields if name not in ("schema_version", "unit"))
"""Fields that `--map` may name, besides values of `segments`, `gold_scores`, `covariates`, `usage` and `metadata`."""

TYPO: Final = 0.8
"""Least likeness at which an unknown column is a misspelled field, and not metadata."""

_FIELDS: Final = frozenset(RagInteraction.model_fields)
_REPLIES: Final = ("data", "result", "results")
"""Columns that may have a whole reply: the answer with its documents."""
CITED: Final = ("reference", "references")
"""Columns that have documents if they have objects with ids or scores, and the right answer if they have texts."""
_RAW: Final = frozenset((*CITED, "request", "search_results", "retrieval_results", "retriever_resources"))
"""Columns that count only if no other column has the field: beside it they are what it was made of, or cites."""
_OF_CHUNKS: Final = frozenset((
    "chunks", "documents", "docs", "doc_aggs", "sources", "contexts", "passages", "nodes", "document_name", "file_path",
    "filepath", "reference_id", "dataset_id", "doc_uri", *IDS, *SCORES,
))  # fmt: skip
_DOCUMENT_FIELDS: Final = frozenset(RetrievedDocument.model_fields)
_NUMBERED: Final = frozenset((
    "documents", "document", "doc", "ctx", "chunk", "retrieved_document", "retrieved_chunk", *COLUMNS["documents"],
)) - {*CITED, "search_results", "context_data"}  # fmt: skip
"""Names that may have a number, such as `context_1` and `context_2`: each is a document."""
_KNOWN: Final = frozenset((*_FIELDS, *(name for names in COLUMNS.values() for name in names), *USAGE_COLUMNS))
_RANKS: Final = {field: {name: rank for rank, name in enumerate(names)} for field, names in COLUMNS.items()}
_NESTED: Final = frozenset(name for field in (*TEXTS, "documents") for name in COLUMNS[field] if "_" in name)
"""Known names that may be divided into that of an object and that of a value in it."""
_DOTTED: Final = tuple(name for name in sorted(_KNOWN) if "." in name)

Mapped = Mapping[str, str | Sequence[str]]
"""Column by field, as the user named it: a name, a place such as `request.question`, or several with documents."""


@dataclass(slots=True)
class SeenColumns:
    """The columns of the rows of a file that were read before."""

    differing: dict[str, tuple[str, str]] = attribute(default_factory=dict)
    """Two columns for a field that differ in a row. A row in which they agree, or which has only one, does not say
    either which of them is the field."""
    named: set[str] = attribute(default_factory=set)
    """Columns of `--map` that a row has; a row without one has no value for it."""

    def question_about(self, field: str) -> str:
        """Return the sentence that asks which of two columns has a field."""
        first, second = self.differing[field]
        ways = " or ".join(f"--map {shlex.quote(f'{field}={name}')}" for name in (first, second))
        return f"{field} may be either of the columns {first} and {second}, which differ: say which with {ways}"


def is_known(column: str) -> bool:
    """Return whether a column is a field of an interaction, or has one under another name."""
    name = plain_name(column)
    return name in _KNOWN or name.partition(".")[0] in _FIELDS or _base(name)[0] in _NUMBERED


def check_target(target: str) -> None:
    """Check that `--map` may name a field.

    Raises:
        ValueError: there is no such field; the message has the nearest name.
    """
    field, _, name = target.partition(".")
    if field == "gold_scores" and name.partition(".")[0] in CLOSED_FAMILIES and name not in METRICS:
        raise ValueError(unknown("metric", name, METRICS))
    if field == "usage" and name and name not in USAGE_COLUMNS:
        raise ValueError(unknown("number of the usage", name, list(AnswerUsage.model_fields)))
    if target not in TARGETS and not (name and field in TABLES):
        raise ValueError(unknown("field", target, (*TARGETS, *(f"{table}.NAME" for table in TABLES))))


def columns_named(mapping: Mapped) -> list[str]:
    """Return the columns that the user named."""
    return [column for given in mapping.values() for column in ([given] if isinstance(given, str) else given)]


def interaction_fields(
    row: Mapping[str, Any],
    mapping: Mapped,
    *,
    cells: bool = False,
    seen: SeenColumns | None = None,
    left_out: Counter[str] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of an interaction in a row, and the column of each field that has another name.

    Args:
        row: column names and values.
        mapping: columns by field, as the user named them.
        cells: whether the values are texts of cells.
        seen: the columns of earlier rows, to which those of this row are added.
        left_out: counts by name what the fields do not have on purpose, such as images.

    Raises:
        InvalidEntryError: a named column is missing, a column is a misspelled field, a field may be two columns, or a
            value cannot be read.
    """
    seen = seen or SeenColumns()
    compared = partial(read_value, cells=cells)
    read = partial(compared, left_out=left_out)
    row = _lift_nested(row, mapping)
    stated, rest = _stated_columns(row, mapping, seen)
    taken = {target: ", ".join(values) for target, values in stated.items()}
    rest = with_tables(rest, {target: stated.pop(target) for target in mapping if target.partition(".")[0] in TABLES})
    own = _own_columns(rest, stated)
    fields = {field: _own_value(field, column, rest[column], read, cells=cells) for field, column in own.items()}
    fields |= {field: _read_all(field, values, read) for field, values in stated.items()}
    used = {*own.values(), *(column for values in stated.values() for column in values)}
    names = {column: _known_name(column) for column in rest if column not in used}
    for field in COLUMNS:
        if fields.get(field) is None and field not in mapping:
            known = _candidates(field, names, rest)
            # A null under the own name may mean that there is no answer, or that another column has it.
            known = [[own[field]], *known] if known and field in own else known
            columns = _choose_columns(field, known, rest, compared, seen)
            if columns:
                fields[field] = _read_all(field, {column: rest[column] for column in columns}, read)
                used = used.union(columns)
                taken |= {field: ", ".join(columns)} if columns != [own.get(field)] else {}
                names = {column: name for column, name in names.items() if column not in columns}
    for column in filter(None, (taken.get("response"), own.get("metadata"))):
        if "documents" not in fields and column in row:
            _put_documents_beside(column, row[column], fields, taken, read)
    used = used.union(_put_transcript(rest, used, fields, taken, left_out))
    _put_history(row, fields, taken, used)
    rest = {name: value for name, value in rest.items() if name not in used and name != taken.get("history")}
    usage, of_usage, not_usage = usage_of(fields.pop("usage", None), rest, left_out)
    fields |= {"usage": usage} if usage else {}
    taken |= of_usage
    others = {*taken.values(), *(name for name in rest if plain_name(name) == "user_id")}
    rest = {name: value for name, value in rest.items() if name not in others and value is not None}
    _refuse_typos(rest, fields)
    _refuse_missing(row, fields)
    if not_usage is not None:
        rest["usage"] = not_usage
    metadata = fields.get("metadata") or {}
    if rest and isinstance(metadata, dict):
        fields["metadata"] = {**rest, **metadata}
    return {name: value for name, value in fields.items() if value is not None}, taken


def with_tables(row: Mapping[str, Any], stated: Mapping[str, Mapping[str, Any]] | None = None) -> Mapping[str, Any]:
    """Return a row in which columns such as `segments.lang` are values of an object, as cells of CSV have them.

    Args:
        row: column names and values.
        stated: values by column, by the table or the value of a table that the user named for them.

    Raises:
        InvalidEntryError: a value is none of its table, or the table has a column of its own that is no object.
    """
    dotted = {name: {name: row[name]} for name in row if "." in name and name.partition(".")[0] in TABLES}
    joined = {name: value for name, value in row.items() if name not in dotted}
    tables: dict[str, dict[str, Any]] = {}
    for target, values in (*dotted.items(), *(stated or {}).items()):
        table, _, name = target.partition(".")
        known = USAGE_COLUMNS.get(name) if table == "usage" else None
        is_other = target in dotted and table == "usage" and known is None  # such as total_tokens
        value = row[target] if is_other else _read_all(target, values, read_value)
        if not name:
            joined[table] = value
        elif value is not None:
            tables.setdefault(table, {})[name if known is None else known.field] = value
    for table, values in tables.items():
        own = {} if joined.get(table) is None else read_value(table, table, joined[table])
        if not isinstance(own, Mapping):
            raise invalid(f"the row has {table}, too: leave one of the columns out")
        joined[table] = {**own, **values}
    return joined


def _stated_columns(
    row: Mapping[str, Any], mapping: Mapped, seen: SeenColumns
) -> tuple[dict[str, Mapping[str, Any]], Mapping[str, Any]]:
    stated: dict[str, Mapping[str, Any]] = {}
    rest = row
    for target, given in mapping.items():
        values: dict[str, Any] = {}
        for column in [given] if isinstance(given, str) else given:
            place = reached(row, column)
            if place is not None:
                values[column], rest = place[1], without(rest, place[0])
                seen.named.add(column)
            elif column in seen.named:
                values[column] = None
            else:
                places = list(islice(places_in(row), KEYS_MAX))
                near = closest(column, places)
                meant = "; it has: " if near is None else f"; did you mean {near!r}? It has: "
                raise invalid(
                    f"{target} is mapped to the column {column!r}, which the row lacks{meant}{', '.join(places)[:200]}"
                )
        stated[target] = values
    return stated, rest


def _own_columns(row: Mapping[str, Any], stated: Collection[str]) -> dict[str, str]:
    own = {name: name for name in row if name in _FIELDS and name not in stated}
    for name in row:
        field = plain_name(name)
        if name not in _FIELDS and field in _FIELDS and field not in stated:
            first = own.setdefault(field, name)
            if first != name and row[first] != row[name]:
                raise invalid(f"the columns {first} and {name} have different values for one field: remove one of them")
    return own


def _own_value(field: str, column: str, value: Any, read: Callable[..., Any], *, cells: bool) -> Any:
    if value is None or (isinstance(value, float) and isnan(value)):
        return EMPTY.get(field) if cells else None
    if field == "documents":
        if isinstance(value, str) and value.lstrip()[:1] == "[":
            with suppress(ValueError):
                value = literal_of(value)
        if isinstance(value, list | tuple):
            value = [item for item in value if not is_missing(item)]
    elif field in TEXTS and isinstance(value, str):
        refuse_cut(field, column, value)
    is_missing_cell = cells and isinstance(value, str) and value.strip() in MISSING
    if field == "history" or (field in (*TEXTS, "documents") and not is_missing_cell and stands(field, value)):
        return value
    return read(field, column, value, own=field in TEXTS and isinstance(value, str))


def _lift_nested(row: Mapping[str, Any], mapping: Mapped) -> Mapping[str, Any]:
    stated = {column.partition(".")[0] for column in columns_named(mapping)}
    for name in _REPLIES:
        inner = row.get(name) if name not in stated else None
        names = {plain_name(str(key)) for key in inner} if isinstance(inner, Mapping) else set()
        if names & {"response", *COLUMNS["response"]} and names & {"documents", *COLUMNS["documents"]}:
            row = {**row[name], **without(row, (name,))}
            break
    nested = [
        f"{column}.{key}"
        for column, value in row.items()
        if isinstance(value, Mapping) and len(value) <= KEYS_MAX and plain_name(column) not in _KNOWN
        for key in value
        if _known_name(f"{column}.{key}") in _NESTED
    ]
    for name in (*_DOTTED, *nested):
        if name not in row and isinstance(row.get(name.partition(".")[0]), Mapping):
            place = reached(row, name)
            row = row if place is None else {**without(row, place[0]), name: place[1]}
    return row


def _known_name(column: str) -> str:
    name = plain_name(column)
    joined = name.replace(".", "_")
    return joined if joined in _NESTED else name


_DIGITS_MAX: Final = 3


def _has_chunks(value: Any) -> bool:
    """Whether a value has documents, or has nothing where documents would stand, rather than the right answer."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with suppress(ValueError):
            value = literal_of(value)
    items = value if isinstance(value, list) and value else [value]
    return all(isinstance(item, Mapping) and (not item or not _OF_CHUNKS.isdisjoint(item)) for item in items)


def _base(name: str) -> tuple[str, int]:
    base = name.rstrip("0123456789")
    digits = name[len(base) :]
    return (base.rstrip("._"), int(digits)) if base and 0 < len(digits) <= _DIGITS_MAX else (name, 0)


def _candidates(field: str, names: Mapping[str, str], row: Mapping[str, Any]) -> list[list[str]]:
    ranks = _RANKS[field]
    by_rank: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for column, name in names.items():
        base, number = (name, 0) if name in ranks else _base(name)
        # The context of a span in exports of Phoenix, such as its `trace_id`, is no document.
        of_span = (
            name == "context"
            and isinstance(row[column], Mapping)
            and all(str(key)[-3:] == "_id" for key in row[column])
        )
        if name in CITED and (field == "documents") != _has_chunks(row[column]):
            continue
        if base != name and field == "documents" and base in _NUMBERED:
            by_rank.setdefault((len(ranks), base), []).append((number, column))
        elif base in ranks and (base == name or field == "response") and not of_span:
            by_rank[ranks[base], column] = [(number, column)]
    known = [[column for _, column in sorted(by_rank[key])] for key in sorted(by_rank, key=lambda key: key[0])]
    if field != "reference_answer":
        known = [columns for columns in known if names[columns[0]] not in _RAW] or known
    is_deepeval = "actual_output" in names.values() and known and names[known[0][0]] == "retrieval_context"
    # A test case of DeepEval has the ideal documents as its `context`.
    return [columns for columns in known if not (is_deepeval and row[known[0][0]] and names[columns[0]] == "context")]


def _choose_columns(
    field: str, known: list[list[str]], row: Mapping[str, Any], read: Callable[..., Any], seen: SeenColumns
) -> list[str]:
    if field not in (*TEXTS, "documents"):
        return next((columns for columns in known if row[columns[0]] is not None), known[0] if known else [])
    if field in ("question", "reference_answer") and len(known) > 1:
        known = [columns for columns in known if _comparable_text(field, columns, row, read)] or known[:1]
    for columns in known[1:]:
        if _comparable_text(field, known[0], row, read) != _comparable_text(field, columns, row, read):
            seen.differing[field] = ", ".join(known[0]), ", ".join(columns)
    if any(", ".join(columns) in seen.differing.get(field, ()) for columns in known):
        raise invalid(seen.question_about(field))
    return known[0] if known else []


def _comparable_text(field: str, columns: Sequence[str], row: Mapping[str, Any], read: Callable[..., Any]) -> Any:
    try:
        value = _read_all(field, {column: row[column] for column in columns}, read)
    except InvalidEntryError:
        return object()
    return [document["text"].strip() for document in value] if field == "documents" else value and value.strip()


def _read_all(target: str, values: Mapping[str, Any], read: Callable[..., Any]) -> Any:
    parts = [read(target, column, value) for column, value in values.items()]
    return parts[0] if len(parts) == 1 else [document for documents in parts for document in documents]


def _put_documents_beside(
    column: str, value: Any, fields: dict[str, Any], taken: dict[str, str], read: Callable[..., Any]
) -> None:
    for key in ("documents", *COLUMNS["documents"]):
        place = reached(value, key)
        if place is not None and isinstance(place[1], list | Mapping) and not isinstance(value, list):
            with suppress(InvalidEntryError):
                fields["documents"] = read("documents", column, place[1])
                taken["documents"] = column
                if column == "metadata" and isinstance(value, Mapping):
                    fields["metadata"] = without(value, place[0])
                return


def _put_transcript(
    rest: Mapping[str, Any],
    used: Collection[str],
    fields: dict[str, Any],
    taken: dict[str, str],
    left_out: Counter[str] | None,
) -> list[str]:
    """Put what the messages of an agent's run have of the fields that no column has; return their column."""
    column = next((name for name in rest if plain_name(name) in TRANSCRIPTS and name not in used), None)
    if column is None or fields.get("documents") is not None or fields.get("steps") is not None:
        return []
    counts: Counter[str] = Counter()
    try:
        run = fields_of_transcript(rest[column], column, counts, fields)
    except UnreadableError:
        return []
    if "steps" not in run:
        return []
    fields |= run
    taken |= dict.fromkeys(run, column)
    if left_out is not None:
        left_out.update(counts)
    return [column]


def _put_history(row: Mapping[str, Any], fields: dict[str, Any], taken: dict[str, str], used: Collection[str]) -> None:
    if "history" in fields:
        turns = fields["history"] if "history" in taken else read_value("history", "history", fields["history"])
        fields["history"] = last_turns(drop_present_turn(turns or (), fields.get("question"))) or None
    elif (history := history_in(row, fields.get("question"), without=used)) is not None:
        taken["history"], fields["history"] = history[0], history[1] or None


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
    for name in (name for name in (*HISTORY_KEYS, *TRANSCRIPTS) if name in by_name):
        turns = None
        with suppress(BrokenTextError):
            turns = turns_of(row[by_name[name]])
        before = drop_present_turn(turns or (), question)
        if turns and (len(before) < len(turns) or name in HISTORY_KEYS):
            return by_name[name], last_turns(before)
    return None


def _refuse_missing(row: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    for name in ("question", "documents", "response"):
        if fields.get(name) is None:
            raise invalid(
                f"{name} is missing: add it, or name its column with --map {name}=COLUMN; the row has: "
                f"{', '.join(row)[:200] or 'nothing'}{_hint_about(name, row)}",
            )


def _hint_about(field: str, row: Mapping[str, Any]) -> str:
    if field == "documents" and "spans" in row:
        return "; the documents of a trace are in its spans: send them with OpenTelemetry, or add a column"
    column = next((name for name in row if plain_name(name) in TRANSCRIPTS), None)
    if field != "question" or column is None:
        return ""
    try:
        fields_of_transcript(row[column], column, Counter(), {})
    except UnreadableError as error:
        return f"; {column} cannot be read: {error}"
    return (
        f"; {column} may have several questions and answers: write a row for each, or name the places of one, such as "
        f"--map question={column}.0.content"
    )


@lru_cache(4096)  # every row of a file has the same names
def _closest_field(name: str, missing: frozenset[str]) -> str | None:
    return closest(name, missing, likeness=TYPO)


def _refuse_typos(rest: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    # `story` and `step` are columns of some data sets, and like `history` and `steps`.
    missing = _FIELDS.difference(fields, ("history", "steps"))
    for name in islice(rest, KEYS_MAX):
        meant = _closest_field(name, missing) if len(name) <= NAME_MAX_CHARS else None
        if meant is not None:
            raise invalid(
                f"{name} is not a field of this schema; did you mean {meant}? Correct its name, or move it to metadata"
            )
