"""Drift detection with a stated false-alarm rate: an e-detector on the mean of bounded values.

Against the claim "the mean is at least the line" each value x pays 1 + l (line - x) on a bet l: at most 1 on average
while the claim holds. M_t = (M_{t-1} + 1) (1 + l (line - x_t)) collects the bets begun at every earlier time
(Shiryaev-Roberts), averaged over a grid of bets. M_t - t then falls on average, so while the claim holds the mean
number of values until M >= A is at least A. A rise is the mirror image.

Source: Shin, Ramdas, Rinaldo (2024), "E-detectors: a nonparametric framework for sequential change detection",
The New England Journal of Statistics in Data Science 2(2), section 4; docs/statistics.md, "Drift".
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .rounds import Rows, rounds
from .running import Floats

Direction = Literal["fall", "rise"]

BETS: Final = 12
"""Bets in the grid, geometric between two shares of the largest possible bet, 1 / (1 - line)."""

SMALLEST_BET, LARGEST_BET = 0.02, 0.8

VERSION: Final = 1
"""Version of the bytes of one row."""

_HEAD = struct.Struct("<B3d")
_SIZE = _HEAD.size + 6 * BETS * 8
_CAPACITY = 16


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a detector knows when it alarms. The values are as they were given, not mirrored."""

    position: int
    """Position in the batch of the value that decided it."""
    row: int
    log_evidence: float
    """Natural logarithm of M."""
    change_n: int
    """Number of values since the estimated change point."""
    change_mean: float
    """Their mean."""
    change_variance: float
    """Their sample variance; 0 for a single value."""
    change_tag: int
    """Tag of the first of them."""


class DetectorTable:
    """E-detectors, one row each, updated together. After an alarm a row starts again at M = 0.

    The change point is where the CUSUM of the best bet last stood at its floor: the start that makes the values since
    then the most unlikely under the claim. Source: Lorden (1971), Annals of Mathematical Statistics 42: 1897-1908.
    """

    def __init__(self) -> None:
        self._used = 0
        # Per row: the line and the values' sign in mirrored terms, so that every row looks for a fall; log A.
        self._rising = np.zeros(_CAPACITY, dtype=bool)
        self._line = np.zeros(_CAPACITY)
        self._log_level = np.zeros(_CAPACITY)
        self._bets = np.zeros((_CAPACITY, BETS))
        # Per row and bet: log M, log CUSUM; number, sum and sum of squares of the values since its start; its tag.
        self._log_m = np.full((_CAPACITY, BETS), -np.inf)
        self._log_cusum = np.zeros((_CAPACITY, BETS))
        self._since = np.zeros((3, _CAPACITY, BETS))
        self._tag = np.zeros((_CAPACITY, BETS), dtype=np.int64)

    def __len__(self) -> int:
        return self._used

    def add_row(self) -> int:
        """Add a row and return its index; `configure` or `load` it before it is updated."""
        if self._used == self._line.size:
            self._grow()
        self._used += 1
        return self._used - 1

    def _grow(self) -> None:
        def doubled(array: NDArray[np.generic], axis: int = 0) -> NDArray[np.generic]:
            return np.concatenate([array, np.zeros_like(array)], axis=axis)

        for name in ("_rising", "_line", "_log_level", "_bets", "_log_m", "_log_cusum", "_tag"):
            setattr(self, name, doubled(getattr(self, name)))
        self._since = np.concatenate([self._since, np.zeros_like(self._since)], axis=1)

    def configure(self, row: int, *, line: float, direction: Direction, run_length: float) -> None:
        """Let a row look for a mean beyond a line, from now on.

        Args:
            row: index.
            line: the mean that is still acceptable, in (0, 1).
            direction: on which side of it means are not.
            run_length: A, at least the mean number of values between false alarms, above 1.

        Raises: ValueError if an argument is out of its range.
        """
        if not 0 < line < 1:
            raise ValueError(f"line is {line}: no mean of values in [0, 1] lies beyond it; choose one inside (0, 1)")
        if not (isfinite(run_length) and run_length > 1):
            raise ValueError(f"run_length is {run_length}: give the least mean number of values between false alarms")
        self._rising[row] = direction == "rise"
        self._line[row] = 1 - line if direction == "rise" else line
        self._log_level[row] = log(run_length)
        self._bets[row] = np.geomspace(SMALLEST_BET, LARGEST_BET, BETS) / (1 - self._line[row])
        self._restart(row)

    def _restart(self, row: int) -> None:
        self._log_m[row], self._log_cusum[row] = -np.inf, 0.0
        self._since[:, row], self._tag[row] = 0.0, 0

    def log_evidence(self, row: int) -> float:
        """Return log M of a row; minus infinite at the start."""
        return float(np.logaddexp.reduce(self._log_m[row]) - log(BETS))

    def change_n(self, row: int) -> int:
        """Return the number of values since the change point estimated so far."""
        return int(self._since[0, row, int(np.argmax(self._log_cusum[row]))])

    def update(self, rows: Rows, values: Floats, tags: NDArray[np.int64]) -> list[Alarm]:
        """Add values to rows, in order, and return the alarms in order of their positions.

        Args:
            rows: row of each value; a row may occur more than once, and goes on after an alarm.
            values: in [0, 1], same shape.
            tags: what is to be known of a value if a change began with it, such as its time; same shape.

        Raises: ValueError if a value is not in [0, 1]; nothing is added then.
        """
        if not np.all((values >= 0) & (values <= 1)):
            raise ValueError("values holds one that is not in [0, 1]: scale by the metric's range first")
        alarms = [
            alarm
            for positions in rounds(rows)
            for alarm in self._update(positions, rows[positions], values[positions], tags[positions])
        ]
        return sorted(alarms, key=lambda alarm: alarm.position)

    def _update(self, positions: Rows, rows: Rows, values: Floats, tags: NDArray[np.int64]) -> list[Alarm]:
        mirrored = np.where(self._rising[rows], 1 - values, values)
        gain = np.log1p(self._bets[rows] * (self._line[rows] - mirrored)[:, None])
        log_m = np.logaddexp(self._log_m[rows], 0.0) + gain
        fresh = self._log_cusum[rows] <= 0
        self._log_m[rows] = log_m
        self._log_cusum[rows] = np.where(fresh, 0.0, self._log_cusum[rows]) + gain
        terms = np.stack([np.ones_like(values), values, values**2])[:, :, None]
        self._since[:, rows] = np.where(fresh, 0.0, self._since[:, rows]) + terms
        self._tag[rows] = np.where(fresh, tags[:, None], self._tag[rows])
        log_evidence = np.logaddexp.reduce(log_m, axis=1) - log(BETS)
        return [
            self._alarm(int(positions[i]), int(rows[i]), float(log_evidence[i]))
            for i in np.flatnonzero(log_evidence >= self._log_level[rows])
        ]

    def _alarm(self, position: int, row: int, log_evidence: float) -> Alarm:
        best = int(np.argmax(self._log_cusum[row]))
        n, total, squares = self._since[:, row, best].tolist()
        mean = total / n
        variance = max(squares - n * mean**2, 0.0) / (n - 1) if n > 1 else 0.0
        alarm = Alarm(position, row, log_evidence, int(n), mean, variance, int(self._tag[row, best]))
        self._restart(row)
        return alarm

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        head = _HEAD.pack(VERSION, float(self._rising[row]), float(self._line[row]), float(self._log_level[row]))
        state = (self._log_m[row], self._log_cusum[row], *self._since[:, row])
        parts: list[bytes] = [head, *(part.astype("<f8").tobytes() for part in state)]
        parts.append(self._tag[row].astype("<i8").tobytes())
        return b"".join(parts)

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        if len(data) != _SIZE or data[0] != VERSION:
            raise ValueError(f"a drift detector has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        _, rising, line, log_level = _HEAD.unpack_from(data)
        self._rising[row], self._line[row], self._log_level[row] = bool(rising), line, log_level
        self._bets[row] = np.geomspace(SMALLEST_BET, LARGEST_BET, BETS) / (1 - line)
        floats = np.frombuffer(data, "<f8", 5 * BETS, _HEAD.size).reshape(5, BETS)
        self._log_m[row], self._log_cusum[row] = floats[0], floats[1]
        self._since[:, row] = floats[2:]
        self._tag[row] = np.frombuffer(data, "<i8", BETS, _HEAD.size + 5 * BETS * 8)


class DriftDetector:
    """Detects that a mean moved from its baseline, with a stated false-alarm rate.

    While the mean is not beyond `baseline` by more than `min_effect`, the mean number of values between false alarms is
    at least `run_length`. It assumes nothing of the values but their range, and that each one's mean given the past is
    not beyond the line.

    Args:
        baseline: the mean that is normal, in the values' unit.
        direction: `fall` or `rise`: which movement to look for.
        run_length: least mean number of values between false alarms.
        min_effect: movement that does not matter, 0 or more, in the values' unit.
        value_range: lowest and highest possible value.

    Raises: ValueError for an argument out of its range; the message names it and the remedy.

    >>> detector = DriftDetector(baseline=0.85, direction="fall", run_length=10_000)
    >>> detector.update([1.0, 1.0, 0.0, 1.0])
    >>> detector.update([0.0] * 20)
    6
    """

    def __init__(
        self,
        *,
        baseline: float,
        direction: Direction = "fall",
        run_length: float = 10_000,
        min_effect: float = 0.0,
        value_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self._lowest, self._highest = value_range
        if not (isfinite(self._lowest) and isfinite(self._highest) and self._lowest < self._highest):
            raise ValueError(f"value_range is {value_range}: give a finite lowest and a higher highest value")
        if direction not in ("fall", "rise"):
            raise ValueError(f"direction is {direction!r}: use fall or rise")
        if not (isfinite(min_effect) and min_effect >= 0):
            raise ValueError(f"min_effect is {min_effect}: give 0 or more, in the values' unit")
        line = baseline - min_effect if direction == "fall" else baseline + min_effect
        if not self._lowest < line < self._highest:
            raise ValueError(
                f"the alarm could never sound: baseline {baseline} with min_effect {min_effect} is not inside the "
                f"value range {self._lowest} to {self._highest}; choose another baseline or a smaller min_effect"
            )
        self._table = DetectorTable()
        self._row = self._table.add_row()
        self._table.configure(self._row, line=self._scaled(line), direction=direction, run_length=run_length)

    def _scaled(self, value: float) -> float:
        return (value - self._lowest) / (self._highest - self._lowest)

    @property
    def log_evidence(self) -> float:
        """Natural logarithm of the evidence M for a movement; an alarm sounds at log(run_length)."""
        return self._table.log_evidence(self._row)

    def update(self, values: float | Sequence[float] | ArrayLike) -> int | None:
        """Add values and return the 0-based index of the first one at which the alarm sounds, None if it does not.

        The detector then starts again, and the values after that index are not taken: pass them in the next call.

        Raises: ValueError for a value that is not finite or outside the value range, or values that are not one list;
            nothing is added then.
        """
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
        if array.ndim != 1:
            raise ValueError(f"values has {array.ndim} dimensions: give one number or one list of numbers")
        wrong = np.flatnonzero(~((array >= self._lowest) & (array <= self._highest)))
        if wrong.size:
            raise ValueError(
                f"values[{wrong[0]}] is {array[wrong[0]]}, outside {self._lowest} to {self._highest}: "
                "leave unknown values out and give the right value_range"
            )
        row, tag = np.array([self._row]), np.zeros(1, dtype=np.int64)
        scaled = (array - self._lowest) / (self._highest - self._lowest)
        for index in range(array.size):
            if self._table.update(row, scaled[index : index + 1], tag):
                return index
        return None
