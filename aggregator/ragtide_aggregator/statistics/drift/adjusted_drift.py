"""Drift within segments: a change detector that a pure change of the mix of segments does not move.

Let l(s) be the limit of segment value s: its normal mean minus the change that does not matter. A value x of segment s
pays 1 + k (l(s) - x), where the bet k may depend on s and on the past. While every segment keeps its limit,

    E(x | past, s) >= l(s) for every s,

each bet pays at most 1 on average given s, so also on average over s, whatever the shares of the segments are and
however they move. The e-detector of `drift.py` then has its run length, with any mix. If the means fall, it grows with
sum p(s) (l(s) - m(s)), p the shares of now: the change within segments of `mix_shift.py`, up to the limits.

**Why not the mean at fixed shares.** That mean is sum q(s) m(s), q the shares of before. A detector of it weighs a
value with q(s) / p(s). It keeps its run length for "sum q m >= b" only if p is known before the value. A share that is
estimated from the past is behind when the mix moves. With q = (0.85, 0.15), means (0.92, 0.5) and new shares (0.3, 0.7)
a value then pays on average as without weights, as if the mean had fallen by 0.23: the detector alarms at once,
although no segment changed. So no detector can promise a run length for the mean at fixed shares while the mix may
move at any time; the promise above, for each segment, needs no shares. The two claims differ only where some segments
rise and others fall.

All segments share one detector: y = L + c (x - l(s)) is in [0, 1] and has a mean of L or more, for

    c = 1 / (1 - lowest l + highest l),   L = c highest l.

With one limit these are the values of `drift.py` themselves. Values of a segment without a limit are y = L: no bet.

Assumes: as `drift.py`; the segment of a value is known before its score, and is not chosen by it.
Source: Shin, Ramdas, Rinaldo (2024), as in `drift.py`; Keiding, Clayton (2014), Statistical Science 29: 529-558,
section 2, for means at fixed shares. Run lengths and delays by simulation: docs/measured/adjusted_drift.md.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..tables.batches import Floats
from ..tables.tables import check_range, scaled
from .detector import checked_directions
from .drift import DetectorTable, Direction


class CommonScale(NamedTuple):
    """A scale on which values of all segments have one limit."""

    limit: float
    """L, in (0, 1)."""
    factor: float
    """c, in (1/2, 1]."""

    @classmethod
    def of(cls, limits: ArrayLike) -> "CommonScale":
        """Return the scale for limits in (0, 1), one a segment."""
        found = np.asarray(limits, dtype=np.float64)
        factor = 1 / (1 - float(found.min()) + float(found.max()))
        return cls(factor * float(found.max()), factor)

    def values(self, values: Floats, limits: Floats) -> Floats:
        """Return values in [0, 1] on the common scale.

        Args:
            values: in [0, 1].
            limits: of each value's segment; nan for a segment without one.
        """
        away = np.where(np.isnan(limits), 0.0, values - np.where(np.isnan(limits), 0.0, limits))
        return np.clip(self.limit + self.factor * away, 0.0, 1.0)


class AdjustedDetector:
    """Detects that scores moved within segments, with a stated false-alarm rate whatever the mix of segments does.

    While no segment's mean is beyond its baseline by more than `min_effect`, the mean number of values between false
    alarms is at least `run_length`, however the shares of the segments move. Values of other segments are counted, and
    bet on nothing.

    Args:
        baselines: the normal mean of each segment, in the values' unit. Of learned means take the lenient ends.
        direction: direction of the change to detect: `fall`, `rise` or `both`.
        run_length: least mean number of values between false alarms.
        min_effect: change that does not matter, 0 or more, in the values' unit.
        value_range: lowest and highest possible value.

    Raises: ValueError for an argument out of its range; the message names it and the remedy.

    >>> detector = AdjustedDetector(baselines={"de": 0.5, "en": 0.9}, run_length=1_000)
    >>> detector.update([1.0, 0.0] * 50, ["de"] * 100)  # German answers are as good as before, and many more
    >>> detector.update([1.0, 0.0] * 50, ["en"] * 100)  # English ones got worse
    19
    """

    def __init__(
        self,
        *,
        baselines: Mapping[str, float],
        direction: Direction | Literal["both"] = "fall",
        run_length: float = 10_000,
        min_effect: float = 0.0,
        value_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        check_range(value_range)
        self._range, (lowest, highest) = value_range, value_range
        if not baselines:
            raise ValueError("baselines is empty: give the normal mean of at least one segment")
        self._places = {name: place for place, name in enumerate(baselines)}
        self._ways = checked_directions(direction, min_effect)
        self._limits: list[Floats] = []
        self._scales: list[CommonScale] = []
        self._table = DetectorTable()
        for way in self._ways:
            ends = np.array([one - min_effect if way == "fall" else one + min_effect for one in baselines.values()])
            if not np.all((lowest < ends) & (ends < highest)):
                name = list(baselines)[int(np.argmin((lowest < ends) & (ends < highest)))]
                raise ValueError(
                    f"the alarm could never sound for {name}: baseline {baselines[name]} with min_effect {min_effect} "
                    f"is not inside the value range {lowest} to {highest}; leave {name} out, or choose a smaller "
                    "min_effect"
                )
            # A rise is a fall of the mirrored values.
            limits = _mirrored((ends - lowest) / (highest - lowest), way)
            scale = CommonScale.of(limits)
            # The last place is that of segments without a baseline.
            self._limits.append(np.append(limits, np.nan))
            self._scales.append(scale)
            row = self._table.add_row()
            self._table.configure(row, limit=scale.limit, direction="fall", run_length=run_length * len(self._ways))

    def update(
        self,
        values: Sequence[float] | ArrayLike,
        segments: Sequence[str],
        *,
        sizes: Sequence[int] | ArrayLike | None = None,
    ) -> int | None:
        """Add values, and return the index (from 0) of the value at which the alarm sounds; None without an alarm.

        After an alarm the detector starts again, and the values after that index are not added: pass them in the next
        call.

        Args:
            values: in order; with sizes, the means of clusters, such as sessions that ended.
            segments: of each value; a cluster has one segment.
            sizes: the number of values in each cluster.

        Raises: ValueError for a value that is not finite or outside the value range, or lists of different lengths;
            nothing is added then.
        """
        array = np.asarray(values, dtype=np.float64)
        counts = np.ones(array.shape, dtype=np.int64) if sizes is None else np.asarray(sizes)
        if array.ndim != 1 or len(segments) != array.size or counts.shape != array.shape:
            raise ValueError(
                "values, segments and sizes differ in length: give one segment and one size for each value"
            )
        if not np.all((counts >= 1) & (counts == np.floor(counts))):
            raise ValueError("sizes is wrong: give one whole number of 1 or more for each value")
        shares, counts = scaled(array, self._range), counts.astype(np.int64)
        places = np.array([self._places.get(name, -1) for name in segments], dtype=np.intp)
        on_scale = np.empty((array.size, len(self._ways)))
        for number, (way, limits, scale) in enumerate(zip(self._ways, self._limits, self._scales, strict=True)):
            on_scale[:, number] = scale.values(_mirrored(shares, way), limits[places])
        trial = DetectorTable()
        for row in range(len(self._ways)):
            trial.load(trial.add_row(), self._table.to_bytes(row))
        alarm = _added(trial, on_scale, counts)
        if alarm is None:
            self._table = trial
            return None
        for row in range(len(self._ways)):
            self._table.restart(row)
        return alarm


def _mirrored(values: Floats, way: Direction) -> Floats:
    return values if way == "fall" else 1 - values


def _added(table: DetectorTable, values: Floats, sizes: NDArray[np.int64]) -> int | None:
    """Add values, one column a row of the table; return the place of the first alarm."""
    n, rows = values.shape
    alarms, _ = table.update(
        np.tile(np.arange(rows), n), values.ravel(), np.zeros(n * rows, dtype=np.int64), sizes=np.repeat(sizes, rows)
    )
    return min((alarm.position // rows for alarm in alarms), default=None)
