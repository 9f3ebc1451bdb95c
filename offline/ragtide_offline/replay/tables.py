"""Selects and counts the rows of a recording's tables. Needs pyarrow."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .selection import Selection

_TIME = pa.timestamp("us", tz="UTC")


def selected(table: Any, selection: Selection) -> Any:
    """Return the rows that are selected by time and segments; the reader has selected the pipelines already."""
    if selection.since is not None:
        table = table.filter(pc.greater_equal(table["occurred_at"], _scalar(selection.since)))
    if selection.until is not None:
        table = table.filter(pc.less(table["occurred_at"], _scalar(selection.until)))
    if selection.segments:
        segments = table["segments"].to_pylist()
        table = table.filter(
            pa.array([selection.takes_segments(dict(segment or ())) for segment in segments], pa.bool_())
        )
    return table


def scopes(table: Any, fields: Sequence[str]) -> Iterator[tuple[tuple[str | None, ...], str | None, int]]:
    """Yield values of the fields, a segment value (None for all), and the number of rows that have them."""
    named = {name: table[name].combine_chunks().cast(pa.string()) for name in fields}
    yield from _grouped(named, pa.nulls(table.num_rows, pa.string()))
    segments = table["segments"].combine_chunks()
    if isinstance(segments, pa.ChunkedArray):
        segments = pa.concat_arrays(segments.chunks) if segments.num_chunks else pa.nulls(0, segments.type)
    offsets = np.asarray(segments.offsets)
    rows = np.repeat(np.arange(len(segments)), np.diff(offsets))
    keys, items = (part.slice(offsets[0], offsets[-1] - offsets[0]) for part in (segments.keys, segments.items))
    texts = pc.binary_join_element_wise(keys.cast(pa.string()), items.cast(pa.string()), "=")
    yield from _grouped({name: column.take(pa.array(rows)) for name, column in named.items()}, texts)


def _grouped(named: dict[str, Any], segments: Any) -> Iterator[tuple[tuple[str | None, ...], str | None, int]]:
    keys = [*named, " segment"]
    found = pa.table({**named, " segment": segments}).group_by(keys).aggregate([([], "count_all")])
    columns = [found[name].to_pylist() for name in (*keys, "count_all")]
    for *values, segment, count in zip(*columns, strict=True):
        yield tuple(values), segment, count


def after(table: Any, position: tuple[int, int]) -> Any:
    """Return the rows after a position in the stream."""
    if position == (0, 0):
        return table
    ms, number = (pa.scalar(part, pa.uint64()) for part in position)
    within = pc.and_(pc.equal(table["entry_ms"], ms), pc.greater(table["entry_number"], number))
    return table.filter(pc.or_(pc.greater(table["entry_ms"], ms), within))


def _scalar(time: datetime) -> Any:
    return pa.scalar(time, _TIME)
