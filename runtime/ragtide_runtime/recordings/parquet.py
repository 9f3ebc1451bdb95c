"""Entries as Parquet and back, without loss. Needs pyarrow."""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from io import BytesIO
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from .columns import COLUMNS, SCORES, Codec, array_of, field_of, too_large
from .entries import EntryKind, RecordedEntry, UnreadableRecordingError
from .json_lines import ENTRY_LINE_BYTES

SUFFIX: Final = ".parquet"

EXACT: Final = "exact"
"""Column with the model as JSON, for a rare entry that the other columns cannot represent exactly."""

ENTRY: Final = ("entry_id", "entry_ms", "entry_number", "partition")
"""Columns of an entry's place: its id, the two numbers of the id for sorting, and the partition."""


_TYPES: Final = {
    **{
        name: {columns[name].type for columns in COLUMNS.values() if name in columns}
        for name in {name for columns in COLUMNS.values() for name in columns}
    },
    "entry_id": {pa.string()},
    "entry_ms": {pa.uint64()},
    "entry_number": {pa.uint64()},
    "partition": {pa.int32()},
    EXACT: {pa.string()},
}
"""By column its types, in any kind of entries; a column with a dot has scores."""


def encode_table(table: Any) -> bytes:
    """Return a table as a Parquet file."""
    buffer = BytesIO()
    parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def decode_table(data: bytes, rows: int) -> Any:
    """Return the table in a Parquet file.

    Args:
        rows: the number of rows that its manifest states.

    Raises:
        UnreadableRecordingError: as for `check`, which is called first; or the columns cannot be unpacked, or are not
            those of a recording.
    """
    file = check(data, rows)
    try:
        table = file.read()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:  # pyarrow has OSErrors without a number for damaged contents
        text = " ".join(str(error).split())[:100]
        raise UnreadableRecordingError(f"its columns cannot be unpacked ({text})") from None
    missing = {*ENTRY, EXACT} - set(table.column_names)
    if missing:
        raise UnreadableRecordingError(f"it has no column {min(missing)}")
    for column in table.schema:
        stored = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        wanted = _TYPES.get(column.name, (pa.float64(),) if "." in column.name else (stored,))
        if not any(_is_of(stored, known) for known in wanted):
            raise UnreadableRecordingError(f"its column {column.name[:100]!r} has the type {str(stored)[:100]}")
    return table


def _is_of(stored: Any, wanted: Any) -> bool:
    if not wanted.num_fields:
        return bool(stored == wanted)
    if (stored.id, stored.num_fields) != (wanted.id, wanted.num_fields):
        return False
    fields = [(stored.field(place), wanted.field(place)) for place in range(wanted.num_fields)]
    if pa.types.is_struct(wanted) and any(field.name != known.name for field, known in fields):
        return False
    return all(_is_of(field.type, known.type) for field, known in fields)


def check(data: bytes, rows: int) -> Any:
    """Return a Parquet file with so many rows; nothing is unpacked.

    Raises:
        UnreadableRecordingError: the data are no Parquet file, have another number of rows, or unpack to more bytes
            than so many entries can have.
    """
    try:
        file = parquet.ParquetFile(BytesIO(data))
    except (pa.ArrowException, OSError) as error:
        raise UnreadableRecordingError(f"it is not a Parquet file ({error})") from None
    metadata = file.metadata
    unpacked = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    if metadata.num_rows != rows or unpacked > rows * ENTRY_LINE_BYTES + len(data):
        raise UnreadableRecordingError(
            f"it unpacks to {metadata.num_rows} rows and {unpacked} bytes, and its manifest states {rows} rows"
        )
    return file


def table_of(kind: EntryKind, entries: Sequence[RecordedEntry]) -> Any:
    """Return entries as a table, one row each, in their order."""
    orders = [entry.order for entry in entries]
    models = [entry.model for entry in entries]
    columns: dict[str, Any] = {
        "entry_id": pa.array([entry.entry_id for entry in entries], pa.string()),
        "entry_ms": pa.array([ms for ms, _ in orders], pa.uint64()),
        "entry_number": pa.array([number for _, number in orders], pa.uint64()),
        "partition": pa.array([entry.partition for entry in entries], pa.int32()),
    }
    inexact: set[int] = set()
    for column, codec in COLUMNS[kind].items():
        values = [getattr(model, field_of(kind, column)) for model in models]
        for row in too_large(codec, values):
            inexact.add(row)
            values[row] = None
        columns[column] = array_of(codec, values)
    for field in SCORES[kind]:
        scores = [getattr(model, field) for model in models]
        metrics = in_order([tuple(of) for of in scores])
        ranks = {metric: rank for rank, metric in enumerate(metrics)}
        for row, of in enumerate(scores):
            # A replay must see the scores in their original order.
            if any(ranks[metric] > ranks[following] for metric, following in pairwise(of)):
                inexact.add(row)
        for metric in metrics:
            columns[f"{field}.{metric}"] = pa.array([of.get(metric) for of in scores], pa.float64())
    exact = [models[row].encode().decode() if row in inexact else None for row in range(len(models))]
    columns[EXACT] = pa.array(exact, pa.string())
    return pa.table(columns)


def in_order(names: Sequence[tuple[str, ...]]) -> list[str]:
    """Return all names in an order that keeps the order of each sequence, as far as the sequences agree.

    >>> in_order([("a", "c"), ("a", "b", "c")])
    ['a', 'b', 'c']
    """
    graph: dict[str, set[str]] = {}
    for sequence in dict.fromkeys(names):
        for name in sequence:
            graph.setdefault(name, set())
        for before, after in pairwise(sequence):
            graph[after].add(before)
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError:
        return list(graph)


def entries_of(kind: EntryKind, table: Any) -> Iterator[RecordedEntry]:
    """Yield the rows of a table as entries, in their order.

    Raises:
        InvalidEntryError: this release does not know the model in a row.
        UnreadableRecordingError: a value is not what its column says.
    """
    model = kind.model
    known = COLUMNS[kind]
    present = [name for name in table.column_names if name in known]
    values = [_values(known[name], table[name]) for name in present]
    fields = [field_of(kind, name) for name in present]
    scores = {
        field: [
            (name.removeprefix(f"{field}."), table[name].to_pylist())
            for name in table.column_names
            if name.startswith(f"{field}.")
        ]
        for field in SCORES[kind]
    }
    ids, partitions, exact = (table[name].to_pylist() for name in ("entry_id", "partition", EXACT))
    for row, entry_id in enumerate(ids):
        if exact[row] is not None:
            yield RecordedEntry(partitions[row], entry_id, model.decode(exact[row].encode()))
            continue
        values_of_row: dict[str, Any] = {}
        for field, column in zip(fields, values, strict=True):
            value = column[row]
            if value is not None:
                values_of_row[field] = value
        for field, columns in scores.items():
            values_of_row[field] = {metric: column[row] for metric, column in columns if column[row] is not None}
        yield RecordedEntry(partitions[row], entry_id, model.from_fields(values_of_row))


def _values(codec: Codec, column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist()
    read = codec.read
    try:
        return values if read is None else [None if value is None else read(value) for value in values]
    except ValueError as error:
        raise UnreadableRecordingError(f"a column of JSON has another text ({str(error)[:100]})") from None


def merge_tables(kind: EntryKind, tables: Sequence[Any]) -> Any:
    """Return the tables of a step as one, in the order of the stream, with the columns of scores in `in_order`."""
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
    # Files of an earlier release lack the columns of later fields.
    fixed = [*ENTRY, *(name for name in COLUMNS[kind] if name in table.column_names)]
    for field in SCORES[kind]:
        fixed += in_order(
            [tuple(name for name in table.column_names if name.startswith(f"{field}.")) for table in tables]
        )
    table = table.select([*fixed, EXACT])
    return table.take(pc.sort_indices(table, [("entry_ms", "ascending"), ("entry_number", "ascending")]))


def rows_between(table: Any, since_ms: int | None, until_ms: int | None, void_after: tuple[int, int] | None) -> Any:
    """Return the rows that were added to the stream from `since_ms` to before `until_ms`, and are not void."""
    ms = table["entry_ms"]
    wanted = None
    if since_ms is not None:
        wanted = pc.greater_equal(ms, pa.scalar(since_ms, pa.uint64()))
    if until_ms is not None:
        before = pc.less(ms, pa.scalar(until_ms, pa.uint64()))
        wanted = before if wanted is None else pc.and_(wanted, before)
    if void_after is not None:
        last_ms, last_number = (pa.scalar(number, pa.uint64()) for number in void_after)
        within = pc.and_(pc.equal(ms, last_ms), pc.less_equal(table["entry_number"], last_number))
        valid = pc.or_(pc.less(ms, last_ms), within)
        wanted = valid if wanted is None else pc.and_(wanted, valid)
    return table if wanted is None else table.filter(wanted)
