"""Numbers of the rows that have them: the dependence of neighbouring values, the swing over the day, and quantiles.

No clock, no I/O.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.redis.keys import CheckpointField

from ..alerts.evaluator import RuleEvaluator
from ..errors import reading
from ..events.batch import Scope
from ..events.keys import HIDDEN, UNBOUNDED, EstimateKey
from ..statistics.drift.drift import Direction
from ..statistics.drift.seasons import SeasonTable, Swings
from ..statistics.intervals.quantiles import Quantiles, counted
from ..statistics.means.dependence import FIRST_BLOCK, Dependence, DependenceTable
from ..statistics.tables.batches import Floats, Rows
from ..statistics.tables.row_table import RowColumn, RowTable
from .level_rows import LevelRows, is_watched
from .rows import AddedBatch, KeyRows, StatePart

SWING_CONFIDENCE: Final = 0.95
"""Confidence of the ends of a swing."""

Table = TypeVar("Table", bound=RowTable)


class _Places(RowTable):
    place = RowColumn(np.intp, fill=-1, stored=False)


class MeasuredRows(StatePart, Generic[Table]):
    """A table that measures some rows of the state: metrics of whole pipelines, whose values have a range."""

    def __init__(self, rows: KeyRows, table: Table) -> None:
        self._rows, self._table = rows, table
        # For each row of the state its row in the table; -1 if it is not measured.
        self._places = _Places()

    def add_keys(self, row: int, keys: Sequence[EstimateKey]) -> None:
        """Add the rows of keys, and measure those that are suitable."""
        self._places.add_rows(len(keys))
        for place, key in enumerate(keys, row):
            if self._is_suitable(place, key):
                self._places.place[place] = self._table.add_row()

    def _is_suitable(self, row: int, key: EstimateKey) -> bool:
        return key.segment is None and key.metric not in UNBOUNDED and not key.metric.startswith(HIDDEN)

    def which(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it is measured."""
        return np.asarray(self._places.place[rows] >= 0)

    def measures(self, row: int) -> bool:
        """Return whether a row is measured."""
        return bool(self._places.place[row] >= 0)

    def _table_rows(self, rows: Rows) -> tuple[Rows, Rows]:
        places = self._places.place[rows]
        which = np.flatnonzero(places >= 0)
        return which, places[which]

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the measured rows that changed."""
        rows = np.array(sorted(self._rows.changed), dtype=np.intp)
        which, places = self._table_rows(rows)
        measured = zip(rows[which].tolist(), self._table.bytes_of(places), strict=True)
        return {self.kinds[0] + self._rows.name(row): data for row, data in measured}, []

    def load_fields(self, kind: CheckpointField, fields: Sequence[tuple[str, bytes]]) -> list[str]:
        """Set rows to fields that `take_changes` returned: all at once, because a state may have many."""
        numbers = []
        for name, _ in fields:
            with reading(kind + name):
                numbers.append(self._rows.named(name))
        rows = np.array(numbers, dtype=np.intp)
        # A reader without rules has the swings of the rows that rules watched.
        for row in rows[~self.which(rows)].tolist():
            self._places.place[row] = self._table.add_row()
        try:
            self._load_rows(self._places.place[rows], [data for _, data in fields])
        except ValueError:
            # One of them is damaged, or of an earlier version.
            return super().load_fields(kind, fields)
        return []

    def _load_rows(self, places: Rows, data: Sequence[bytes]) -> None:
        raise NotImplementedError

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        self._table.load(int(self._places.place[self._rows.named(name)]), data)
        return True


class DependenceRows(MeasuredRows[DependenceTable]):
    """The dependence of neighbouring values of whole pipelines."""

    kinds = (CheckpointField.DEPENDENCE,)

    def __init__(self, rows: KeyRows) -> None:
        super().__init__(rows, DependenceTable())

    def _load_rows(self, places: Rows, data: Sequence[bytes]) -> None:
        self._table.load_each(places, data)

    def update(self, rows: Rows, values: Floats, times_ms: Rows) -> None:
        """Add values to rows, in order, with the times of their interactions; rows that are not measured take none."""
        which, places = self._table_rows(rows)
        self._table.update(places, values[which], times_ms[which])

    def read(self, rows: Rows) -> Dependence:
        """Return the dependence of measured rows; no change of the mean is taken for it."""
        return self._table.read(self._places.place[rows])

    def block(self, scope: Scope, ruled: Iterable[int]) -> int:
        """Return the length of blocks that suits a pipeline and run.

        Args:
            scope: the pipeline and run.
            ruled: rows that alert rules watch. The longest of their blocks counts; without rules, the median block.
        """
        keys = self._rows.keys
        mine = [row for row, key in enumerate(keys) if (key.pipeline, key.run) == scope and self.measures(row)]
        watched = sorted(set(mine).intersection(ruled))
        if not mine:
            return FIRST_BLOCK
        blocks = self.read(np.array(watched or mine, dtype=np.intp)).block
        return int(blocks.max()) if watched else int(np.sort(blocks)[blocks.size // 2])

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of a row with a number that no values add up to; None without one."""
        rows = np.fromiter(range(len(self._rows)) if everything else self._rows.changed, dtype=np.intp)
        which, places = self._table_rows(rows)
        wrong = self._table.impossible(places)
        return self.kinds[0] + self._rows.name(int(rows[which[np.argmax(wrong)]])) if wrong.any() else None

    def add_part(self, other: Self, rows: Sequence[int]) -> None:
        """Add the blocks of another state."""
        for theirs, row in enumerate(rows):
            if self.measures(row) and other.measures(theirs):
                self._table.merge(int(self._places.place[row]), other._table, int(other._places.place[theirs]))


class SwingRows(MeasuredRows[SeasonTable]):
    """How far means move with the hour of the day, of the keys of whole pipelines that rules or quiet detectors watch.

    It takes the values, or the closed clusters, that rules take, in the hours in which they count there.
    """

    kinds = (CheckpointField.SEASON,)

    def __init__(self, rows: KeyRows, rules: RuleEvaluator, levels: LevelRows | None) -> None:
        super().__init__(rows, SeasonTable("day"))
        self._rules, self._levels = rules, levels

    def _is_suitable(self, row: int, key: EstimateKey) -> bool:
        watched = self._levels is not None and is_watched(key)
        return super()._is_suitable(row, key) and (watched or bool(self._rules.of(row)))

    def _load_rows(self, places: Rows, data: Sequence[bytes]) -> None:
        self._table.load_each(places, data)

    def take(self, added: AddedBatch) -> None:
        """Add the values and the closed clusters that rules take."""
        for arrived in added.arrived:
            values = arrived.values
            which, places = self._table_rows(values.rows)
            sizes = None if values.sizes is None else values.sizes[which]
            self._table.add_values(places, values.hours[which], values.values[which], sizes=sizes)

    def swings(self, rows: Rows, direction: Direction) -> Swings:
        """Return the swings of measured rows, scaled to [0, 1]."""
        return self._table.swings(self._places.place[rows], direction=direction, confidence=SWING_CONFIDENCE)


class QuantileRows(StatePart):
    """The quantiles of the metrics of whole pipelines.

    Args:
        wanted: whether there are quantiles.
    """

    kinds = (CheckpointField.QUANTILES,)

    def __init__(self, rows: KeyRows, *, wanted: bool) -> None:
        self._rows, self._wanted = rows, wanted
        self._sketches: list[Quantiles] = []
        self._places = _Places()

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Add the row of a key."""
        self._places.add_row()
        if self._wanted and key.segment is None and not key.metric.startswith(HIDDEN):
            self._places.place[row] = len(self._sketches)
            self._sketches.append(Quantiles())

    def find(self, row: int) -> Quantiles | None:
        """Return the quantiles of a row's values; None for a row without quantiles."""
        place = int(self._places.place[row])
        return None if place < 0 else self._sketches[place]

    def take(self, added: AddedBatch) -> None:
        """Add the values of a batch."""
        if self._sketches:
            places = self._places.place[added.batch.rows]
            which = np.flatnonzero(places >= 0)
            for place, key, count in counted(places[which], added.batch.values[which]):
                self._sketches[place].add_bin(key, count)

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the quantiles of the rows that changed."""
        sketches = ((row, self.find(row)) for row in sorted(self._rows.changed))
        return {
            self.kinds[0] + self._rows.name(row): sketch.to_bytes() for row, sketch in sketches if sketch is not None
        }, []

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        # A new key gets a row, which may replace the column by a longer one: it is read after that.
        row = self._rows.named(name)
        place = int(self._places.place[row])
        if place >= 0:
            self._sketches[place] = Quantiles.from_bytes(data)
        return True

    def add_part(self, other: Self, rows: Sequence[int]) -> None:
        """Add the quantiles of another state."""
        for theirs, row in enumerate(rows):
            sketch, added = self.find(row), other.find(theirs)
            if sketch is not None and added is not None:
                sketch.merge(added)
