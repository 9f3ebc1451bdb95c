"""Drift within segments: a scale of values on which a pure change of the mix of segments moves no detector.

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

With one limit these are the values of `drift.py` themselves.

Assumes: as `drift.py`; the segment of a value is known before its score, and is not chosen by it.
Source: Shin, Ramdas, Rinaldo (2024), as in `drift.py`; Keiding, Clayton (2014), Statistical Science 29: 529-558,
section 2, for means at fixed shares. Run lengths and delays by simulation: benchmarks/measured/adjusted_drift.md.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats, Rows


class CommonScale(NamedTuple):
    """A scale on which values of all segments have one limit; one element for each value, or one for all.

    >>> scale = CommonScale.of(lowest=0.5, highest=0.9)  # a segment at 0.5 and one at 0.9
    >>> scale.values(np.array([0.5, 0.9]), np.array([0.5, 0.9])).round(3).tolist()
    [0.643, 0.643]
    >>> round(float(scale.limit), 3)
    0.643
    """

    limit: Floats
    """L, in (0, 1)."""
    factor: Floats
    """c, in (1/2, 1]."""

    @classmethod
    def of(cls, lowest: Floats | float, highest: Floats | float) -> "CommonScale":
        """Return the scale for segments whose limits are from the lowest to the highest, both in (0, 1)."""
        factor = np.asarray(1 / (1 - lowest + highest))
        return cls(np.asarray(factor * highest), factor)

    def values(self, values: Floats, limits: Floats) -> Floats:
        """Return values in [0, 1] on the scale.

        Args:
            values: in [0, 1].
            limits: of each value's segment.
        """
        return np.clip(self.limit + self.factor * (values - limits), 0.0, 1.0)

    def at(self, places: Rows | NDArray[np.bool_]) -> "CommonScale":
        """Return the scale of some of the values."""
        return CommonScale(self.limit[places], self.factor[places])
