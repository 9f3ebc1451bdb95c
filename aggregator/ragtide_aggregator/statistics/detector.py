"""One drift detector for one stream of values: the face of `DetectorTable`."""

from collections.abc import Sequence
from math import isfinite, log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .batches import Floats
from .drift import Alarm, DetectorTable, Direction


class DriftDetector:
    """Detects that a mean moved from its baseline, with a stated false-alarm rate.

    While the mean is not beyond `baseline` by more than `min_effect`, the mean number of values between false alarms is
    at least `run_length`. It assumes nothing of the values but their range, and that each one's mean given the past is
    not beyond the limit. Values of one session break that assumption: give each session as one cluster (`sizes`).

    Args:
        baseline: the mean that is normal, in the values' unit.
        direction: `fall`, `rise` or `both`: which movement to look for.
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
        direction: Direction | Literal["both"] = "fall",
        run_length: float = 10_000,
        min_effect: float = 0.0,
        value_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self._lowest, self._highest = value_range
        if not (isfinite(self._lowest) and isfinite(self._highest) and self._lowest < self._highest):
            raise ValueError(f"value_range is {value_range}: give a finite lowest and a higher highest value")
        if direction not in ("fall", "rise", "both"):
            raise ValueError(f"direction is {direction!r}: use fall, rise or both")
        if not (isfinite(min_effect) and min_effect >= 0):
            raise ValueError(f"min_effect is {min_effect}: give 0 or more, in the values' unit")
        directions: tuple[Direction, ...] = ("fall", "rise") if direction == "both" else (direction,)
        self._table = DetectorTable()
        for one in directions:
            limit = baseline - min_effect if one == "fall" else baseline + min_effect
            if not self._lowest < limit < self._highest:
                raise ValueError(
                    f"the alarm could never sound: baseline {baseline} with min_effect {min_effect} is not inside the "
                    f"value range {self._lowest} to {self._highest}; choose another baseline or a smaller min_effect"
                )
            scaled = (limit - self._lowest) / (self._highest - self._lowest)
            self._table.configure(
                self._table.add_row(), limit=scaled, direction=one, run_length=run_length * len(directions)
            )

    @property
    def log_evidence(self) -> float:
        """Natural logarithm of the evidence M for a movement; an alarm sounds at log(run_length).

        With both directions it is the mean of the two, so an alarm sounds at log(run_length) or, seldom, above.
        """
        return float(
            np.logaddexp.reduce([self._table.log_evidence(row) for row in self._rows()]) - log(len(self._table))
        )

    def _rows(self) -> range:
        return range(len(self._table))

    def update(
        self, values: float | Sequence[float] | ArrayLike, *, sizes: Sequence[int] | ArrayLike | None = None
    ) -> int | None:
        """Add values and return the 0-based index of the first one at which the alarm sounds, None if it does not.

        The detector then starts again, and the values after that index are not taken: pass them in the next call.

        Args:
            values: one or more, in order; with sizes, the means of clusters, such as sessions that ended.
            sizes: the number of values in each cluster; their dependence inside a cluster breaks nothing, as long as
                clusters are independent and do not end because of their values.

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
        scaled = (array - self._lowest) / (self._highest - self._lowest)
        counts = np.ones(array.shape, dtype=np.int64) if sizes is None else np.atleast_1d(np.asarray(sizes))
        if counts.shape != array.shape or not np.all((counts >= 1) & (counts == np.floor(counts))):
            raise ValueError("sizes must hold one whole number for each value, 1 or more")
        counts = counts.astype(np.int64)
        first = self._first_alarm(scaled, counts)
        if first is None:
            self._add(self._table, scaled, counts)
            return None
        for row in self._rows():
            self._table.restart(row)
        return first

    def _first_alarm(self, scaled: Floats, sizes: NDArray[np.int64]) -> int | None:
        """Return where the alarm will sound; the state stays as it is."""
        trial = DetectorTable()
        for row in self._rows():
            trial.load(trial.add_row(), self._table.to_bytes(row))
        alarms = self._add(trial, scaled, sizes)
        return min((alarm.position // len(self._table) for alarm in alarms), default=None)

    def _add(self, table: DetectorTable, scaled: Floats, sizes: NDArray[np.int64]) -> list[Alarm]:
        rows = np.tile(np.asarray(self._rows(), dtype=np.intp), scaled.size)
        means, counts = np.repeat(scaled, len(self._table)), np.repeat(sizes, len(self._table))
        alarms, _ = table.update(rows, means, np.zeros(rows.size, dtype=np.int64), sizes=counts)
        return alarms
