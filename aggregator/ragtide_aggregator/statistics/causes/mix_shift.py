"""The change of a mean, split into change of the mix of segments and change within segments.

Let p0(s), p1(s) be the shares of segment value s before and after, m0(s), m1(s) its means. With the means of the
reference stretch as the standard (Kitagawa; the twofold Blinder-Oaxaca split with the coefficients of the first group)

    total  = sum p1 m1 - sum p0 m0 = mix + within
    mix    = sum (p1 - p0) m0              the traffic is another one, each segment scored as before
    within = sum p1 (m1 - m0)              the items of now, beside items of the same segments before

The symmetric split, with averages of before and after as weights, halves the interaction sum (p1 - p0)(m1 - m0). Here
it is in `within`, for three reasons. `within` then answers the question of an operator: do the answers that we give now
score worse than answers of the same segments did? A segment without items now needs no mean of now. And both parts are
means over the items since the change, z = m0(segment) and w = x - m0(segment), whose sequences are known.

**Since the change.** Let g(s) be the means found in the reference stretch. Given that stretch, z = g(s) and
w = x - g(s) are bounded values of each item. So the `running` sequence holds for their means at every look, exactly and
whatever the scores do: for sum p1 g and sum p1 (m1 - g). The predictions are the values without change: the reference
mean for z, 0 for w. They are known before, so the intrinsic time is a sum over segment values and needs no order. (The
range of an item of a segment value that was not there before is larger; it is taken once such an item is there.)

**The reference stretch.** Its own error is left: for `within` it is minus sum p1 (g - m0), for `mix` it is that sum
minus the error of the mean. To first order these are means over its items of

    -rho(s) (x - m0(s))   and   rho(s) (x - m0(s)) - (x - m),   rho = p1 / p0,   m the mean of the reference stretch,

bounded again. The code puts the values found for rho and the means. Both errors together: `joint_boundary.py`.

**Dependence.** Items of one session depend on each other. Two design effects inflate the two parts of each intrinsic
time: that of scores about the mean of their segment value, and that of the segment values themselves.

Assumes: items depend on each other only as the design effects say; a segment value does not depend on earlier scores;
the moment of the change was not chosen by the scores. After an alert it was;
benchmarks/measured/mix_shift.md has the names that drifts got then.

Source: Kitagawa (1955), "Components of a difference between two rates", JASA 50: 1168-1194; Oaxaca (1973), Blinder
(1973); Jann (2008), "The Blinder-Oaxaca decomposition", Stata Journal 8: section 2, for the standard; boundaries as in
`joint_boundary.py`. Coverage and right names by simulation: benchmarks/measured/mix_shift.md (`make mixshift`).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ..intervals.joint_boundary import Deviations, joint_half_width
from ..means.clustered_interval import design_effects
from ..means.moments import Moments
from ..means.segment_moments import Stretches
from ..tables.batches import Floats

_ROUNDING: Final = 1e-12
"""Error of sums of numbers up to 1: with a single segment value the mix does not change, and has no other error."""


_PARTS: Final = ((0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (2.0, -1.0))
"""Weights of z = m0(segment) and of the score in total, mix, within, and mix minus within."""


class DesignEffects(NamedTuple):
    """Variances of sums of items as they came, over those of independent items: 1 or more."""

    scores: float = 1.0
    """Of scores about the mean of their segment value."""
    segments: float = 1.0
    """Of segment values: where all items of a session share theirs, about the size of a session."""

    @classmethod
    def of_clusters(cls, moments: Moments, *, blocks: bool = False) -> "DesignEffects":
        """Return the design effects that the clusters of one key show; 1 without clusters.

        Args:
            moments: of the key, with the sums over its clusters; shape (1,).
            blocks: whether clusters are stretches of neighbours. The items of others are taken to share their segment
                value, so that their effect is the size of a cluster; that of blocks is then the effect of scores.
        """
        scores = max(float(np.nan_to_num(design_effects(moments)[0], nan=1.0)), 1.0)
        sizes = 1.0 if moments.clusters is None else max(float(moments.clusters.mean_size[0]), 1.0)
        return cls(scores, scores if blocks else sizes)

    def check(self) -> None:
        """Raise ValueError unless both are 1 or more."""
        if not (self.scores >= 1 and self.segments >= 1):
            raise ValueError(f"design effects are {self.scores} and {self.segments}: give 1 or more")


INDEPENDENT: Final = DesignEffects()
"""Design effects of items that do not depend on each other."""


@dataclass(frozen=True, slots=True)
class PartOfChange:
    """One part of a change, estimated; arrays of one shape."""

    estimate: Floats
    half_width: Floats
    """The part is within so much of the estimate at every look at once."""
    standard_error: Floats

    @property
    def lower(self) -> Floats:
        """Lower end, in [-1, 1]."""
        return np.clip(self.estimate - self.half_width, -1.0, 1.0)

    @property
    def upper(self) -> Floats:
        """Upper end, in [-1, 1]."""
        return np.clip(self.estimate + self.half_width, -1.0, 1.0)


@dataclass(frozen=True, slots=True)
class SplitChange:
    """A change and its parts; arrays with one element a pair of stretches."""

    total: PartOfChange
    mix: PartOfChange
    within: PartOfChange
    mix_minus_within: PartOfChange
    """Beside the total it says which part is the larger: the product of the two is mix^2 - within^2."""


def split_change(compared: Stretches, *, alpha: float, effects: DesignEffects = INDEPENDENT) -> SplitChange:
    """Return a change split into mix and within, each with an interval valid at every look.

    Args:
        compared: the two stretches.
        alpha: probability that an interval ever misses, each for itself.

    Raises: ValueError for an argument out of its range.
    """
    effects.check()

    parts = [_part(compared, of_mean, of_score, effects) for of_mean, of_score in _PARTS]
    since, reference = (
        Deviations(*(np.stack(np.broadcast_arrays(*pair)) for pair in zip(*both, strict=True)))
        for both in zip(*(part.deviations for part in parts), strict=True)
    )
    # Together, because the search for the half-width is as fast for many as for one.
    widths = joint_half_width(since, reference, alpha=alpha) + _ROUNDING
    return SplitChange(
        *(PartOfChange(part.estimate, width, part.standard_error) for part, width in zip(parts, widths, strict=True))
    )


class _SplitPart(NamedTuple):
    estimate: Floats
    standard_error: Floats
    deviations: tuple[Deviations, Deviations]
    """Since the change, and of the reference stretch."""


def _part(compared: Stretches, of_mean: float, of_score: float, effects: DesignEffects) -> _SplitPart:
    before, after, known = compared.reference, compared.since, compared.known
    both = of_mean + of_score
    m = before.overall[..., None]
    n0, n1 = before.total[..., None], after.total[..., None]
    # The contribution of an item of a segment value is offset + slope x.
    offset = np.where(known, of_mean * before.mean, 0.0) - both * m
    slope = np.where(known, of_score, both)
    mean = offset + slope * after.mean
    estimate = (after.n * mean).sum(axis=-1) / n1[..., 0]
    spread = effects.scores * slope**2 * after.m2
    some = (before.n > 0) | (after.n > 0)
    most = np.where(some, np.maximum(np.abs(offset), np.abs(offset + slope)), 0.0)
    since = _scaled(most, spread + effects.segments * after.n * mean**2, n1)
    # The same for an item of the reference stretch: rho (x - mean of its segment) - both (x - m).
    rho = np.where(known, of_mean * after.n / n1 * n0 / np.maximum(before.n, 1), 0.0)
    steep = effects.scores * (rho - both) ** 2
    ends = [np.abs(rho * (x - before.mean) - both * (x - m)) for x in (0.0, 1.0)]
    apart = effects.segments * both**2 * before.n * (before.mean - m) ** 2
    reference = _scaled(np.where(before.n > 0, np.maximum(*ends), 0.0), steep * before.v + apart, n0)
    around = effects.segments * after.n * (mean - estimate[..., None]) ** 2
    squared = (spread + around) / n1**2 + (steep * before.m2 + apart) / n0**2
    return _SplitPart(estimate, np.sqrt(squared.sum(axis=-1)), (since, reference))


def _scaled(most: Floats, v: Floats, n: Floats) -> Deviations:
    return Deviations(most.max(axis=-1) / n[..., 0], v.sum(axis=-1) / n[..., 0] ** 2)


def may_be_certain(compared: Stretches, *, effects: DesignEffects = INDEPENDENT) -> bool:
    """Return whether an interval of `mix` or `within` may leave 0 out, which is cheap to know.

    An interval valid at every look is wider than two standard errors.
    """
    parts = (_part(compared, *which, effects) for which in _PARTS[1:3])
    return any(bool(np.any(np.abs(part.estimate) > 2 * part.standard_error)) for part in parts)


def weighted_changes(
    compared: Stretches, weights: Floats, *, alpha: float, effects: DesignEffects = INDEPENDENT
) -> PartOfChange:
    """Return weighted sums of the changes within groups, m1(s) - m0(s).

    Args:
        compared: the two stretches.
        weights: on the last axis the groups; 0 for groups without items in either stretch.
        alpha: probability that an interval ever misses, each for itself.
        effects: of dependence among the items; only that of the scores matters.

    Assumes: as `split_change`, given the segments of all items: the weights do not depend on scores.
    """
    effects.check()
    before, after = compared.reference, compared.since

    def deviations(one_n: Floats, one_v: Floats) -> Deviations:
        per_item = weights / np.maximum(one_n, 1)
        return Deviations(np.abs(per_item).max(axis=-1), effects.scores * (per_item**2 * one_v).sum(axis=-1))

    half_width = joint_half_width(deviations(after.n, after.v), deviations(before.n, before.v), alpha=alpha)
    squared = sum(weights**2 * moments.m2 / np.maximum(moments.n, 1) ** 2 for moments in (before, after))
    change = (weights * (after.mean - before.mean)).sum(axis=-1)
    return PartOfChange(change, half_width, np.sqrt(effects.scores * np.asarray(squared).sum(axis=-1)))
