"""Which rows of a recording's tables are replayed. Needs pyarrow."""

from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .selection import Selection

_TIME = pa.timestamp("us", tz="UTC")


def selected(table: Any, selection: Selection) -> Any:
    """Return the rows of a table of interactions or metric events that are selected, all but by their pipelines."""
    if selection.since is not None:
        table = table.filter(pc.greater_equal(table["occurred_at"], _scalar(selection.since)))
    if selection.until is not None:
        table = table.filter(pc.less(table["occurred_at"], _scalar(selection.until)))
    if selection.segments:
        segments = table["segments"].to_pylist()
        table = table.filter(pa.array([selection.takes_segments(dict(one or ())) for one in segments], pa.bool_()))
    return table


def after(table: Any, position: tuple[int, int]) -> Any:
    """Return the rows after a position in the stream."""
    if position == (0, 0):
        return table
    ms, number = (pa.scalar(part, pa.uint64()) for part in position)
    within = pc.and_(pc.equal(table["entry_ms"], ms), pc.greater(table["entry_number"], number))
    return table.filter(pc.or_(pc.greater(table["entry_ms"], ms), within))


def _scalar(time: datetime) -> Any:
    return pa.scalar(time, _TIME)
