"""The sketch of quantiles beside a table of rows: time to add and to merge, memory of a key, and the same quantiles.

`python benchmarks/quantile_sketch.py`; decisions/0030-the-hub-client-and-the-sketch-stay.md has the result.
"""

import time
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.intervals.quantiles import BINS, SHOWN, ZERO, Quantiles, counted, keys_of

VALUES = 1_000_000
BATCH = 1_000
KEYS = 300
UNSET = -(2**30)


class QuantileRows:
    """The same bins as rows of an array: the lowest bin holds what lies below the highest `BINS` bins."""

    def __init__(self, capacity: int) -> None:
        self.bins = np.zeros((capacity, BINS), dtype=np.int64)
        self.zeros = np.zeros(capacity, dtype=np.int64)
        self.highest = np.full(capacity, UNSET, dtype=np.int64)

    def add(self, rows: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Add values to rows."""
        keys = keys_of(values)
        some = keys != ZERO
        np.add.at(self.zeros, rows[~some], 1)
        self.add_bins(rows[some], keys[some], np.ones(int(some.sum()), dtype=np.int64))

    def add_bins(self, rows: NDArray[np.int64], keys: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add counts of values in bins."""
        before = self.highest.copy()
        np.maximum.at(self.highest, rows, keys)
        for row in np.flatnonzero((self.highest > before) & (before != UNSET)):
            self._shift(int(row), int(self.highest[row] - before[row]))
        np.add.at(self.bins, (rows, np.maximum(keys - self.highest[rows] + BINS - 1, 0)), counts)

    def _shift(self, row: int, by: int) -> None:
        bins, by = self.bins[row], min(by, BINS)
        lost = bins[:by].sum()
        bins[: BINS - by] = bins[by:].copy()
        bins[BINS - by :] = 0
        bins[0] += lost

    def merge(self, other: "QuantileRows") -> None:
        """Add the rows of another table."""
        self.zeros += other.zeros
        rows, bins = np.nonzero(other.bins)
        self.add_bins(rows, other.highest[rows] - BINS + 1 + bins, other.bins[rows, bins])


def batches(seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(VALUES // BATCH):
        rows = np.minimum(rng.geometric(0.02, BATCH), KEYS) - 1
        found.append((rows, np.where(rng.random(BATCH) < 0.05, 0.0, rng.lognormal(0.0, 1.0, BATCH))))
    return found


def sketches(parts: list[Any]) -> dict[int, Quantiles]:
    found: dict[int, Quantiles] = {}
    for rows, values in parts:
        for row, key, count in counted(rows, values):
            if row not in found:
                found[row] = Quantiles()
            found[row].add_bin(key, count)
    return found


def table(parts: list[Any]) -> QuantileRows:
    found = QuantileRows(KEYS)
    for rows, values in parts:
        found.add(rows, values)
    return found


def read(table: QuantileRows, row: int) -> list[float]:
    middle = {int(key): value for value in np.geomspace(1e-4, 1e4, 4_000) for key in keys_of(np.array([value]))}
    ends = np.cumsum(table.bins[row]) + table.zeros[row]
    places = [share * (ends[-1] - 1) for share in SHOWN]
    keys = [int(np.searchsorted(ends, place, side="right")) + int(table.highest[row]) - BINS + 1 for place in places]
    return [0.0 if place < table.zeros[row] else middle[key] for place, key in zip(places, keys, strict=True)]


def measure(make: Any, *args: Any) -> tuple[Any, float, float]:
    started = time.perf_counter()
    make(*args)
    seconds = time.perf_counter() - started
    tracemalloc.start()
    found = make(*args)
    if isinstance(found, dict):
        _ = [sketch.n for sketch in found.values()]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found, seconds, size / KEYS


def main() -> None:
    one, two = batches(1), batches(2)
    for name, make in (("sketch", sketches), ("rows", table)):
        first, seconds, size = measure(make, one)
        second: Any = make(two)
        started = time.perf_counter()
        if isinstance(first, dict):
            for row in second:
                first.setdefault(row, Quantiles()).merge(second[row])
            shown = [round(value, 3) for value in first[0].read().values()]
        else:
            first.merge(second)
            shown = [round(float(value), 3) for value in read(first, 0)]
        merged = time.perf_counter() - started
        print(f"{name}: add {seconds:.2f} s, merge {1000 * merged:.1f} ms, {size:,.0f} bytes a key, {shown}")


if __name__ == "__main__":
    main()
