"""The keys of a state, one row per key, with counts, times and population sizes. No clock, no I/O."""

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import to_milliseconds
from ragtide_schemas.limits import TIME_MAX

from ..events.batch import EventBatch, Times
from ..events.keys import EstimateKey
from ..statistics.tables.batches import Rows
from ..statistics.tables.tables import doubled

_ROW: Final = struct.Struct("<3QqQ")
_ROWS: Final = np.dtype([("counts", "<i8", (3,)), ("updated_ms", "<i8"), ("population", "<i8")])
_CAPACITY: Final = 64

LATEST_MS: Final = to_milliseconds(TIME_MAX)
"""The latest time that an event can have."""

SIZE: Final = _ROW.size
"""Bytes of a row."""


class KeyRows:
    """Keys and their rows.

    Attributes:
        keys: key of every row.
        counts: absences, values too late for a window, and values out of order; shape (3, rows or more).
        updated_ms: time of the newest interaction of each row; shape (rows or more,).
        population: population size of each row, 0 if unknown; same shape.
        holds_counts: whether the values of each row are counts; same shape.
    """

    def __init__(self) -> None:
        self.keys: list[EstimateKey] = []
        self._names: list[str | None] = []
        self._named: dict[str, int] = {}
        self._index: dict[EstimateKey, int] = {}
        self.counts = np.zeros((3, _CAPACITY), dtype=np.int64)
        self.updated_ms = np.zeros(_CAPACITY, dtype=np.int64)
        self.population = np.zeros(_CAPACITY, dtype=np.int64)
        self.holds_counts = np.zeros(_CAPACITY, dtype=bool)
        self._newest_ms: dict[tuple[str, str | None], int] = {}

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, key: EstimateKey) -> int | None:
        """Return the row of a key; None for an unknown key."""
        return self._index.get(key)

    def add(self, key: EstimateKey) -> int:
        """Add a row for a new key, and return it."""
        row = self._index[key] = len(self.keys)
        if row == self.updated_ms.size:
            self.counts = doubled(self.counts, axis=1)
            self.updated_ms, self.population = doubled(self.updated_ms), doubled(self.population)
            self.holds_counts = doubled(self.holds_counts)
        self.holds_counts[row] = key.holds_counts
        self.keys.append(key)
        self._names.append(None)
        return row

    def name(self, row: int) -> str:
        """Return the key of a row as text, which a commit writes into the names of several fields."""
        name = self._names[row]
        if name is None:
            name = self._names[row] = self.keys[row].encode()
        return name

    def named(self, name: str) -> int | None:
        """Return the row whose key was read from this text; None if none was."""
        return self._named.get(name)

    def remember(self, name: str, row: int) -> None:
        """Take note that the key of a row was read from a text, which is then not decoded again."""
        self._named[name] = row

    def newest_ms(self, pipeline: str, run: str | None) -> int | None:
        """Return the time of the newest interaction of a pipeline and run; None without one."""
        return self._newest_ms.get((pipeline, run))

    def advance(self, pipeline: str, run: str | None, time_ms: int) -> int:
        """Advance the newest time of a pipeline and run; return the newest time before, or the given time at first."""
        newest = self._newest_ms.get((pipeline, run), time_ms)
        self._newest_ms[pipeline, run] = max(newest, time_ms)
        return newest

    def count(self, absent: Rows, late: Rows, out_of_order: Rows) -> None:
        """Add absences, late values and values out of order, one for each time that a row occurs."""
        for counts, which in zip(self.counts, (absent, late, out_of_order), strict=True):
            np.add.at(counts, which, 1)

    def follow(self, pipeline: str, run: str | None, times_ms: Times) -> Times:
        """Call `advance` for several interactions in order, and return its results."""
        newest = np.maximum.accumulate(np.concatenate([[self.advance(pipeline, run, int(times_ms[0]))], times_ms]))
        self.advance(pipeline, run, int(newest[-1]))
        return newest[:-1]

    def finite(self, batch: EventBatch) -> None:
        """Set the population sizes of a batch's rows; of several sizes for one row, the last counts."""
        if not batch.population.any():
            return
        parts = np.concatenate([batch.part_of, batch.absent_of])
        order = np.argsort(parts, kind="stable")
        order = order[batch.population[parts[order]] > 0]
        self.population[np.concatenate([batch.rows, batch.absent])[order]] = batch.population[parts[order]]

    def touch(self, rows: Rows, times_ms: NDArray[np.int64]) -> None:
        """Advance the times of rows to those of interactions."""
        np.maximum.at(self.updated_ms, rows, times_ms)

    def impossible(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether a count is negative, or its time is impossible; same shape."""
        wrong = (self.counts[:, rows] < 0).any(axis=0) | (self.population[rows] < 0)
        times = self.updated_ms[rows]
        return np.asarray(wrong | (times < 0) | (times > LATEST_MS))

    def merge(self, row: int, other: "KeyRows", other_row: int) -> None:
        """Add the counts of the same key in other rows."""
        self.counts[:, row] += other.counts[:, other_row]
        self.updated_ms[row] = max(self.updated_ms[row], other.updated_ms[other_row])
        self.population[row] = max(self.population[row], other.population[other_row])
        key = self.keys[row]
        self.advance(key.pipeline, key.run, other.newest_ms(key.pipeline, key.run) or 0)

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        return _ROW.pack(*self.counts[:, row].tolist(), int(self.updated_ms[row]), int(self.population[row]))

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned, at the beginning of the data."""
        *counts, updated_ms, self.population[row] = _ROW.unpack_from(data)
        self.counts[:, row] = counts
        self.updated_ms[row] = updated_ms
        self.advance(self.keys[row].pipeline, self.keys[row].run, int(self.updated_ms[row]))

    def load_rows(self, rows: Rows, data: bytes) -> None:
        """Set rows to what `to_bytes` returned for each, joined; much faster than one by one."""
        found = np.frombuffer(data, dtype=_ROWS)
        # A count above 2^63 becomes negative here, and so impossible.
        self.counts[:, rows] = found["counts"].T
        self.population[rows] = found["population"]
        self.updated_ms[rows] = found["updated_ms"]
        for row, time_ms in zip(rows.tolist(), found["updated_ms"].tolist(), strict=True):
            key = self.keys[row]
            self.advance(key.pipeline, key.run, time_ms)
