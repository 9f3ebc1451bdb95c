"""A drift detector for one stream of values, in the values' own unit."""

from collections.abc import Sequence
from math import isfinite, log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..tables.batches import Floats
from ..tables.tables import check_range, scaled
from .drift import Alarm, DetectorTable, Direction


class DriftDetector:
    """Detects that a mean moved from its baseline, with a stated false-alarm rate.

    While the mean is not beyond `baseline` by more than `min_effect`, the mean number of values between false alarms is
    at least `run_length`. This assumes the range of the values, and that without a change the mean of each value given
    the past is not beyond the limit. Values of one session break this assumption: give each session as one cluster
    (`sizes`).

    Args:
        baseline: the normal mean, in the values' unit.
        direction: direction of the change to detect: `fall`, `rise` or `both`.
        run_length: least mean number of values between false alarms.
        min_effect: change that does not matter, 0 or more, in the values' unit.
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
        check_range(value_range)
        self._range, (lowest, highest) = value_range, value_range
        directions = checked_directions(direction, min_effect)
        self._table = DetectorTable()
        for way in directions:
            limit = baseline - min_effect if way == "fall" else baseline + min_effect
            if not lowest < limit < highest:
                raise ValueError(
                    f"the alarm could never sound: baseline {baseline} with min_effect {min_effect} is not inside the "
                    f"value range {lowest} to {highest}; choose another baseline or a smaller min_effect"
                )
            share = (limit - lowest) / (highest - lowest)
            self._table.configure(
                self._table.add_row(), limit=share, direction=way, run_length=run_length * len(directions)
            )

    @property
    def log_evidence(self) -> float:
        """Natural logarithm of the evidence M for a change; an alarm sounds at log(run_length).

        With both directions this is the mean of the two, which is at times above log(run_length) at the alarm.
        """
        return float(
            np.logaddexp.reduce([self._table.log_evidence(row) for row in self._rows()]) - log(len(self._table))
        )

    def _rows(self) -> range:
        return range(len(self._table))

    def update(
        self, values: float | Sequence[float] | ArrayLike, *, sizes: Sequence[int] | ArrayLike | None = None
    ) -> int | None:
        """Add values, and return the index (from 0) of the value at which the alarm sounds; None without an alarm.

        After an alarm the detector starts again, and the values after that index are not added: pass them in the next
        call.

        Args:
            values: one or more, in order; with sizes, the means of clusters, such as sessions that ended.
            sizes: the number of values in each cluster; their dependence inside a cluster breaks nothing, as long as
                clusters are independent and do not end because of their values.

        Raises:
            ValueError: a value is not finite or outside the value range, or the values are not one list; nothing is
                added then.
        """
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
        if array.ndim != 1:
            raise ValueError(f"values has {array.ndim} dimensions: give one number or one list of numbers")
        shares = scaled(array, self._range)
        counts = np.ones(array.shape, dtype=np.int64) if sizes is None else np.atleast_1d(np.asarray(sizes))
        if counts.shape != array.shape or not np.all((counts >= 1) & (counts == np.floor(counts))):
            raise ValueError("sizes is wrong: give one whole number of 1 or more for each value")
        counts = counts.astype(np.int64)
        trial = DetectorTable()
        for row in self._rows():
            trial.load(trial.add_row(), self._table.to_bytes(row))
        alarms = self._add(trial, shares, counts)
        first = min((alarm.position // len(self._table) for alarm in alarms), default=None)
        if first is None:
            self._add(self._table, shares, counts)
            return None
        for row in self._rows():
            self._table.restart(row)
        return first

    def _add(self, table: DetectorTable, shares: Floats, sizes: NDArray[np.int64]) -> list[Alarm]:
        rows = np.tile(np.asarray(self._rows(), dtype=np.intp), shares.size)
        means, counts = np.repeat(shares, len(self._table)), np.repeat(sizes, len(self._table))
        alarms, _ = table.update(rows, means, np.zeros(rows.size, dtype=np.int64), sizes=counts)
        return alarms


def checked_directions(direction: Direction | Literal["both"], min_effect: float) -> tuple[Direction, ...]:
    """The directions that a detector looks in, once both arguments of its caller are in range; ValueError otherwise."""
    if direction not in ("fall", "rise", "both"):
        raise ValueError(f"direction is {direction!r}: use fall, rise or both")
    if not (isfinite(min_effect) and min_effect >= 0):
        raise ValueError(f"min_effect is {min_effect}: give 0 or more, in the values' unit")
    return ("fall", "rise") if direction == "both" else (direction,)
