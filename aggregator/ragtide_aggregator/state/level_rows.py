"""The levels of the metrics of whole live pipelines, which quiet detectors watch: since when a metric is as it is.

They take the values, or the closed clusters, that alert rules take, and share a budget of false marks. Nothing notifies
of a move. No clock, no I/O.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import METRICS, Direction, Move, from_milliseconds

from ..alerts.levels import MOST_AT_ONCE
from ..alerts.rule_values import RuleValues, in_order
from ..errors import reading
from ..events.keys import EstimateKey
from ..statistics.drift.budget import Budget
from ..statistics.drift.levels import DIRECTIONS, LevelChange, Levels, LevelTable
from ..statistics.drift.seasons import HOUR_MS
from ..statistics.tables.batches import Rows
from ..statistics.tables.row_table import RowColumn, RowTable
from .options import LevelOptions
from .rows import AddedBatch, KeyRows, StatePart, keys_of


def is_watched(key: EstimateKey) -> bool:
    """Return whether the level of a key is watched: a metric of a whole live pipeline that has a better direction.

    Ragtide's own metrics are those with bands; of declared metrics, those whose declaration names a direction.
    """
    if key.segment is not None or key.run is not None:
        return False
    if key.measure is not None:
        return key.measure.direction is not Direction.NEITHER and not key.holds_counts
    definition = METRICS.get(key.metric)
    return definition is not None and definition.bands is not None


class WatchedLevel(NamedTuple):
    """What a quiet detector knows about the level of a metric."""

    key: EstimateKey
    needed: int = 0
    """Number of values that it still learns from; 0 once the normal level is known."""
    since: datetime | None = None
    """Time since which the level is as it is: the beginning of the last move, or the first value. None where something
    else explains the move."""
    move: Move | None = None
    """The last move; None if none was found, or something else explains it."""
    change: LevelChange | None = None
    """The same move, for what else may explain it."""


class _LevelPlaces(RowTable):
    place = RowColumn(np.intp, fill=-1, stored=False)


class LevelRows(StatePart):
    """The watched levels of a state."""

    kinds = (CheckpointField.LEVEL_BUDGET, CheckpointField.LEVEL)

    def __init__(self, options: LevelOptions, rows: KeyRows) -> None:
        self._rows = rows
        self._levels = Levels(options.learn)
        self._budget = Budget(options.false_moves, options.period_ms)
        # For each row of the state its level; -1 if it is not watched. And for each level its row.
        self._places, self._watched = _LevelPlaces(), list[int]()

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Watch the level of a key, if it is one of those."""
        self._places.add_row()
        if is_watched(key):
            self._places.place[row] = self._levels.add_row()
            self._watched.append(row)

    def watch(self, rows: Rows) -> NDArray[np.bool_]:
        """Return whether the level of each row is watched."""
        return np.asarray(self._places.place[rows] >= 0)

    def take(self, added: AddedBatch) -> None:
        """Add the values and the closed clusters that arrived, in the order of their arrival."""
        # A first answer counts once more with its session, and the level is that of all answers.
        arrived = [batch for batch in added.arrived if batch.values.first is None]
        if not self._watched or not any(batch.parts.size for batch in arrived):
            return
        values = in_order(arrived).values
        which = np.flatnonzero(self.watch(values.rows))
        times_ms = values.hours[which] * HOUR_MS
        start = 0
        while start < which.size:
            if times_ms[start] >= self._budget.next_ms:
                self._budget.begin(int(times_ms[start]))
            later = np.flatnonzero(times_ms[start:] >= self._budget.next_ms)
            end = start + int(later[0]) if later.size else which.size
            self._add(values, which[start:end])
            start = end

    def _add(self, values: RuleValues, which: Rows) -> None:
        sizes = np.ones(which.size, dtype=np.int64) if values.sizes is None else values.sizes[which].astype(np.int64)
        # A value costs once for each detector; all values of a cluster cost what its last value costs.
        ends = len(DIRECTIONS) * np.cumsum(sizes)
        costs = np.minimum(self._budget.spend(int(ends[-1]))[ends - 1] * sizes, MOST_AT_ONCE)
        places = self._places.place[values.rows[which]]
        self._levels.update(places, values.values[which], values.times_ms[which], costs, sizes)

    def levels(self) -> list[WatchedLevel]:
        """Return what is known about each level that has a value."""
        return watched_levels([self._rows.keys[row] for row in self._watched], self._levels)

    def _changed(self) -> tuple[Rows, Rows]:
        rows = np.array(sorted(self._rows.changed), dtype=np.intp)
        rows = rows[self.watch(rows)]
        return rows, self._places.place[rows]

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the levels that changed, and the budget."""
        rows, places = self._changed()
        if not rows.size:
            return {}, []
        levels = zip(rows.tolist(), self._levels.bytes_of(places), strict=True)
        fields: dict[str, bytes] = {CheckpointField.LEVEL + self._rows.name(row): data for row, data in levels}
        return fields | {CheckpointField.LEVEL_BUDGET: self._budget.to_bytes()}, []

    def load_fields(self, kind: CheckpointField, fields: Sequence[tuple[str, bytes]]) -> list[str]:
        """Set the levels, or the budget; return the fields of levels that are not watched."""
        if kind == CheckpointField.LEVEL_BUDGET:
            with reading(kind):
                self._budget.load(fields[0][1])
            return []
        rows = []
        for name, _ in fields:
            with reading(kind + name):
                rows.append(self._rows.named(name))
        # New keys get rows, which may replace the column by a longer one: it is read after that.
        places = self._places.place[np.array(rows, dtype=np.intp)]
        watched = np.flatnonzero(places >= 0)
        try:
            # All at once, because a state may have many.
            self._levels.load_rows(places[watched], [fields[number][1] for number in watched.tolist()])
        except ValueError:
            # One of them is damaged: the error names it.
            for number in watched.tolist():
                with reading(kind + fields[number][0]):
                    self._levels.load(int(places[number]), fields[number][1])
        return [kind + fields[number][0] for number in np.flatnonzero(places < 0).tolist()]

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of a level with a number that is impossible; None without one."""
        rows, places = self._changed()
        if everything:
            rows, places = np.array(self._watched, dtype=np.intp), np.arange(len(self._watched))
        wrong = self._levels.impossible(places)
        return CheckpointField.LEVEL + self._rows.name(int(rows[np.argmax(wrong)])) if wrong.any() else None


def read_levels(learn: int, fields: Mapping[str, bytes]) -> dict[EstimateKey, WatchedLevel]:
    """Return the watched levels in fields of a checkpoint, for a reader that needs only their heads.

    Args:
        learn: least number of values from which a level is learned.
        fields: names and the first `HEAD` bytes.

    Raises:
        DamagedFieldError: a field cannot be read.
    """
    keys = keys_of(CheckpointField.LEVEL, [name.removeprefix(CheckpointField.LEVEL) for name in fields])
    try:
        levels = Levels.of_heads(learn, [*fields.values()])
    except ValueError:
        # One of them is damaged: the error names it.
        for name, head in fields.items():
            with reading(name):
                Levels.of_heads(learn, [head])
        raise
    return {level.key: level for level in watched_levels(keys, levels) if is_watched(level.key)}


def watched_levels(keys: Sequence[EstimateKey], levels: Levels) -> list[WatchedLevel]:
    """Return what is known about each level that has a value.

    Args:
        keys: of all rows of the levels.
    """
    table = levels.table
    columns = zip(
        keys, table.since_ms.tolist(), table.found_ms.tolist(), table.known.tolist(), table.next_n.tolist(),
        levels.n_learned().tolist(), strict=False,
    )  # fmt: skip
    watched = []
    for place, (key, since_ms, found_ms, known, next_n, learned) in enumerate(columns):
        if since_ms >= 0:
            needed, since = 0 if known else max(next_n - learned, 1), from_milliseconds(since_ms)
            move = None if found_ms < 0 else _move(key, table, place)
            watched.append(WatchedLevel(key, needed, since, move, None if move is None else levels.change(place)))
    return watched


def _move(key: EstimateKey, table: LevelTable, place: int) -> Move:
    lowest, highest = key.value_range
    return Move(
        began_at=from_milliseconds(int(table.since_ms[place])),
        found_at=from_milliseconds(int(table.found_ms[place])),
        direction="rise" if table.rose[place] else "fall",
        before=lowest + (highest - lowest) * float(table.before[place]),
        after=lowest + (highest - lowest) * float(table.after[place]),
        n_after=int(table.n_after[place]),
    )
