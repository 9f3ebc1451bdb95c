"""Running moments of many keys at once: one row of arrays per key."""

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .rounds import Rows, rounds
from .running import FIRST_GUESS, Floats

RECENT_N: Final = 64
"""About how many values the recent mean looks back on."""

VERSION: Final = 1
"""Version of the bytes of one row."""

_ROW = struct.Struct("<Bq6d")
_CAPACITY = 64


class MomentTable:
    """Count, mean, spread, intrinsic time, recent mean and extremes of values in [0, 1], one row per key.

    Updates are sequential within a row (Welford's recurrence), so the result does not depend on how the values were
    cut into batches, to the bit. Arrays have one element per row.

    Attributes:
        n: number of values.
        mean: their mean; 0 while there are none.
        m2: sum of squared deviations from the mean.
        v: intrinsic time of `running_interval`: sum of squared deviations from the mean of the values before.
        recent: exponentially weighted mean of about the last 64 values; the plain mean of the first 32.
        minimum: smallest value; infinite while there are none.
        maximum: largest value; minus infinite while there are none.

    Source: Welford (1962), Technometrics 4: 419-420.
    """

    def __init__(self) -> None:
        self._used = 0
        self._counts = np.zeros(_CAPACITY, dtype=np.int64)
        # One row per quantity, so that a column of all keys is contiguous.
        self._values = self._empty(_CAPACITY)

    def __len__(self) -> int:
        return self._used

    @staticmethod
    def _empty(rows: int) -> Floats:
        values = np.zeros((6, rows))
        values[4], values[5] = np.inf, -np.inf
        return values

    @property
    def n(self) -> NDArray[np.int64]:  # noqa: D102 - described in the class
        return self._counts[: self._used]

    @property
    def mean(self) -> Floats:  # noqa: D102
        return self._values[0, : self._used]

    @property
    def m2(self) -> Floats:  # noqa: D102
        return self._values[1, : self._used]

    @property
    def v(self) -> Floats:  # noqa: D102
        return self._values[2, : self._used]

    @property
    def recent(self) -> Floats:  # noqa: D102
        return self._values[3, : self._used]

    @property
    def minimum(self) -> Floats:  # noqa: D102
        return self._values[4, : self._used]

    @property
    def maximum(self) -> Floats:  # noqa: D102
        return self._values[5, : self._used]

    def variance(self, row: int) -> float:
        """Return the sample variance (n - 1) of a row, in [0, 1/2]; nan below two values."""
        n = int(self._counts[row])
        return max(float(self._values[1, row]), 0.0) / (n - 1) if n > 1 else float("nan")

    def add_row(self) -> int:
        """Add a row without values and return its index."""
        if self._used == self._counts.size:
            grown = self._empty(2 * self._used)
            grown[:, : self._used] = self._values
            self._values = grown
            self._counts = np.concatenate([self._counts, np.zeros(self._used, dtype=np.int64)])
        self._used += 1
        return self._used - 1

    def update(self, rows: Rows, values: Floats) -> None:
        """Add values to rows, in order; a row may occur more than once.

        Raises: ValueError if a value is not in [0, 1]; nothing is added then.
        """
        if not np.all((values >= 0) & (values <= 1)):
            raise ValueError("values holds one that is not in [0, 1]: scale by the metric's range first")
        for positions in rounds(rows):
            self._update(rows[positions], values[positions])

    def _update(self, rows: Rows, x: Floats) -> None:
        n = self._counts[rows] + 1
        mean, m2, v, recent, minimum, maximum = self._values[:, rows]
        before = np.where(n == 1, FIRST_GUESS, mean)
        new_mean = mean + (x - mean) / n
        self._counts[rows] = n
        self._values[:, rows] = (
            new_mean,
            m2 + (x - mean) * (x - new_mean),
            v + (x - before) ** 2,
            recent + (x - recent) * np.maximum(1 / n, 2 / RECENT_N),
            np.minimum(minimum, x),
            np.maximum(maximum, x),
        )

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        return _ROW.pack(VERSION, int(self._counts[row]), *self._values[:, row].tolist())

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        if len(data) != _ROW.size or data[0] != VERSION:
            raise ValueError(f"a row of moments has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        _, count, *values = _ROW.unpack(data)
        self._counts[row] = count
        self._values[:, row] = values
