"""Joins the rows of one answer in files with a row for each retrieved chunk, as pandas writes them after `explode`.

Rows next to each other are of one answer if they have its id, or the index of a table, and differ in nothing but the
chunk and what belongs to it, such as its score or rank.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from ragtide_schemas import RagInteraction
from ragtide_schemas.limits import DOCUMENTS_MAX
from ragtide_schemas.printable import shortened

from ..shapes.document_keys import SCORES, is_missing
from ..shapes.spelled import spells_a_list
from .columns import CITED, COLUMNS, Mapped, is_known
from .formats import Record
from .places import plain_name

_OF_CHUNKS: Final = frozenset((
    "chunk", "context", "doc", "document", "file", "filename", "id", "index", "node", "order", "page", "passage",
    "path", "position", "rank", "retrieved", "retrieval", "retrieve", "segment", "source", "title", "uri", "url",
    "distance", "relevance", "score", "similarity", "chunkid", "did", "docid", "docno", "pid",
))  # fmt: skip
"""Words in the names of columns that are about one chunk."""
_OF_ANSWERS: Final = frozenset(RagInteraction.model_fields) - {"source"}
_INDICES: Final = ("", "unnamed:_0", "index", "level_0", "__index_level_0__")
"""Names of the index of a table, which is the same in all rows that come from one row."""
_REMEMBERED: Final = 1 << 18
"""Answers that are remembered, to find a chunk whose neighbours are elsewhere."""


_Mapped = tuple[tuple[str, tuple[str, ...]], ...]
"""Fields with the columns that the user named for each."""


class _Header(NamedTuple):
    """What the columns of a row are."""

    chunk: str | None
    """Column that may have one chunk."""
    id: str | None
    """Column of the id of the answer."""
    facts: frozenset[str]
    """Columns that may be about the chunk."""
    known: tuple[str, ...]
    """Columns that have a meaning for the answer."""


@lru_cache(maxsize=64)
def _header(names: tuple[str, ...], mapped: _Mapped) -> _Header:
    stated = {field: columns[0] if len(columns) == 1 else None for field, columns in mapped}
    by_name = {plain_name(name): name for name in reversed(names)}
    columns = {
        field: next((by_name[name] for name in (field, *known) if name in by_name and name not in CITED), None)
        for field, known in COLUMNS.items()
    } | stated
    chunk, id_column = columns["documents"], columns["interaction_id"]
    taken = {*columns.values(), *(name for _, given in mapped for name in given)}
    facts = frozenset(
        name
        for name, plain in ((name, plain_name(name)) for name in names if name not in taken)
        if plain not in _OF_ANSWERS.union(_INDICES) and not _OF_CHUNKS.isdisjoint(re.split(r"[._]", plain))
    )
    known = tuple(name for name in names if name != chunk and name not in facts and (name in taken or is_known(name)))
    return _Header(chunk if chunk in names else None, id_column if id_column in names else None, facts, known)


def whole_rows(records: Iterable[Record], mapping: Mapped) -> Iterator[Record]:
    """Yield records in which the chunks of one answer are its documents.

    A chunk whose answer cannot be known is a problem of its row: its neighbours are elsewhere, or neither an id nor an
    index says whether two rows are one answer.

    Args:
        mapping: column by field, as the user stated it.
    """
    mapped = tuple((field, (given,) if isinstance(given, str) else tuple(given)) for field, given in mapping.items())
    seen = array("q", bytes(8 * _REMEMBERED))
    group: list[Record] = []
    problem = ""
    for record in records:
        others = _columns_between(_header(tuple(group[-1].fields or ()), mapped), group[-1], record) if group else None
        if others is None or others:
            cause = _DIFFERENT.format(", ".join(map(shortened, others))) if others else ""
            yield from _joined(group, mapped, seen, problem or cause)
            group, problem = [record], cause
        elif len(group) <= DOCUMENTS_MAX:
            group.append(record)
    yield from _joined(group, mapped, seen, problem)


def _columns_between(header: _Header, first: Record, second: Record) -> list[str] | None:
    """Return the columns because of which two chunks of one id are not of one answer; None for rows of two answers."""
    one, other = first.fields, second.fields
    if header.chunk is None or one is None or other is None or one.keys() != other.keys():
        return None
    different = [name for name in one if one[name] != other[name]]
    others = [name for name in different if name != header.chunk and name not in header.facts]
    if different and not others:
        return [] if _is_chunk(one[header.chunk]) and _is_chunk(other[header.chunk]) else None
    has_id = header.id is not None and one[header.id] is not None and header.chunk in different
    return others[:3] if has_id and not set(header.known) & set(others) else None


def _joined(group: Sequence[Record], mapped: _Mapped, seen: "array[int]", problem: str) -> Iterator[Record]:
    fields = group[0].fields if group else None
    header = _header(tuple(fields or ()), mapped)
    if fields is None or header.chunk is None or not _is_chunk(fields[header.chunk]):
        yield from group
        return
    rows = sorted((record.fields or {} for record in group), key=partial(_stated_rank, header))
    named = None if header.id is None else fields[header.id]
    if problem:
        yield replace(group[0], fields=None, problem=problem)
    elif named is not None and _came_before(header, rows, seen):
        yield replace(group[0], fields=None, problem=_APART.format(shortened(str(named))))
    elif len(group) == 1:
        yield group[0]
    elif named is None and not any(
        plain_name(name) in _INDICES or rows[0][name] != rows[1][name] for name in fields if name != header.chunk
    ):
        yield replace(group[0], fields=None, problem=_UNKNOWN.format(group[-1].number))
    else:
        whole = {**fields, header.chunk: [_document_of_row(row, header.chunk) for row in rows]}
        for name in header.facts:
            if any(row[name] != fields[name] for row in rows):
                del whole[name]
                whole[f"chunk_{name}" if is_known(name) else name] = [row[name] for row in rows]
        yield replace(group[0], fields=whole, content=b"\n".join(record.content for record in group))


def _stated_rank(header: _Header, row: Mapping[str, Any]) -> float:
    """Return the rank that a row states for its chunk; 0 if it states none, so that rows stay in their order."""
    stated = next((row[name] for name in header.facts if plain_name(name).endswith("rank")), None)
    try:
        return float(stated or 0)
    except (TypeError, ValueError):
        return 0.0


def _is_chunk(value: Any) -> bool:
    if isinstance(value, str):
        return not is_missing(value) and not spells_a_list(value)
    is_list = isinstance(value, dict) and all(str(key).isdecimal() for key in value)  # such as that of `contexts.0`
    return isinstance(value, dict) and not is_list and any(isinstance(part, str) for part in value.values())


def _came_before(header: _Header, rows: Sequence[Mapping[str, Any]], seen: "array[int]") -> bool:
    answer = tuple(repr(rows[0][name]) for name in header.known)
    fingerprints = [hash(answer), *(hash((*answer, repr(row[header.chunk or ""]))) for row in rows)]
    if seen[fingerprints[0] % _REMEMBERED] == fingerprints[0]:
        return any(seen[fingerprint % _REMEMBERED] != fingerprint for fingerprint in fingerprints)
    for fingerprint in fingerprints:
        seen[fingerprint % _REMEMBERED] = fingerprint
    return False


def _document_of_row(row: Mapping[str, Any], column: str) -> Any:
    if not isinstance(row[column], str):
        return row[column]
    by_name = {plain_name(name): value for name, value in row.items() if value is not None}
    facts = {field: next((by_name[name] for name in names if name in by_name), None) for field, names in _FACTS.items()}
    document: dict[str, Any] = {"text": row[column]}
    if isinstance(facts["id"], str | int):
        document["id"] = str(facts["id"])
    with suppress(TypeError, ValueError):
        document["score"] = float(facts["score"] or "")
    return document


_FACTS: Final = {
    "id": ("chunk_id", "doc_id", "document_id", "passage_id", "node_id"),
    "score": (*SCORES, "retrieval_score", "similarity_score"),
}
_APART: Final = (
    "the answer {!r} came before with another document: put the rows of one answer next to each other, or give each "
    "answer an id of its own"
)
_DIFFERENT: Final = (
    "it has the id, the question and the response of a row beside it, and another document, but differs in {}: leave "
    "this column out if the rows are the chunks of one answer, otherwise give each answer an id of its own"
)
_UNKNOWN: Final = (
    "it has the question and the response of the next row, up to row {}, and another document: if the rows are the "
    "chunks of one answer, give them one id, otherwise an id each"
)
