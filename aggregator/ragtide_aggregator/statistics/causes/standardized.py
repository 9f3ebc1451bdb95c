"""The standardized mean: the mean that the traffic would have with its mix of segments held fixed.

With fixed shares q(s) it is sum q(s) m1(s), m1(s) the mean of segment value s in this stretch (direct standardization).
It does not move when only the mix moves, so its change is change within segments. Its error is a sum over the items

    sum over s of q(s) (found mean - m1(s)) = sum over items of q(s) / n(s) (x - m1(s)),

whose weights tend to fixed ones, q(s) / share(s) over n, if the shares of the stretch settle. With fixed weights it is
a sum of bounded deviations, and the `running` sequence holds at every look; the error of the weights is of the second
order. A segment value without items has a mean between 0 and 1, and the interval says so.

Assumes: the shares are given, not estimated; a segment does not depend on earlier scores.
Source: Keiding, Clayton (2014), "Standardization and control for confounding in observational studies", Statistical
Science 29: 529-558, section 2; boundary as in `running.py`. Coverage by simulation: `make mixshift`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..intervals.intervals import Interval
from ..intervals.joint_boundary import Deviations, joint_half_width
from ..means.segment_moments import SegmentMoments
from ..tables.batches import Floats


@dataclass(frozen=True, slots=True)
class StandardizedMean(Interval[Floats, Floats]):
    """Means in [0, 1] at fixed shares; arrays with one element a stretch.

    They are of the segment values that have items, at their shares; nan if none of those with a share has one.
    """

    standard_error: Floats
    covered: Floats
    """The part of the shares that is in segment values with items, in [0, 1]."""


def standardized_mean(
    moments: SegmentMoments, shares: ArrayLike, *, alpha: float, design_effect: float = 1.0
) -> StandardizedMean:
    """Return the mean at fixed shares, with an interval valid at every look.

    Args:
        moments: of the stretch.
        shares: of the segment values, 0 or more; scaled to a sum of 1.
        alpha: probability that the interval ever misses.
        design_effect: variance of a sum of scores as they came over that of independent ones, 1 or more.

    Raises: ValueError for an argument out of its range.
    """
    weights = np.broadcast_to(np.asarray(shares, dtype=np.float64), moments.n.shape)
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0) and np.all(weights.sum(axis=-1) > 0)):
        raise ValueError("shares holds one below 0, or only zeros: give the share of each segment value")
    if not design_effect >= 1:
        raise ValueError(f"design_effect is {design_effect}: give 1 or more")
    weights = weights / weights.sum(axis=-1, keepdims=True)
    seen = np.where(moments.n > 0, weights, 0.0)
    covered = seen.sum(axis=-1)
    per_item = seen / np.maximum(moments.n, 1)
    total = (seen * moments.mean).sum(axis=-1)
    deviations = Deviations(per_item.max(axis=-1), design_effect * (per_item**2 * moments.v).sum(axis=-1))
    nothing = np.zeros(covered.shape)
    half_width = joint_half_width(deviations, Deviations(nothing, nothing), alpha=alpha)
    variance = design_effect * (per_item**2 * moments.m2).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = np.where(covered > 0, total / np.where(covered > 0, covered, 1.0), np.nan)
    return StandardizedMean(
        estimate,
        np.clip(total - half_width, 0.0, 1.0),
        np.clip(total + half_width + (1 - covered), 0.0, 1.0),
        np.sqrt(variance),
        np.asarray(covered),
    )
