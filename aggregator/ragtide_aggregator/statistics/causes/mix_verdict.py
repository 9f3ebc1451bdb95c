"""Traffic or system: which part of a change is certain, in which segments, and how small a change could be named.

**Verdict.** A part is certain if its interval does not hold 0. `both`: both parts are certain. `mix`: mix is certain,
within is not, and mix is the larger of the two. `within` likewise. `neither`: both intervals lie within the smallest
effect that matters. Else `unresolved`. Signs say which part is the larger: mix^2 - within^2 is total (mix - within), so
total and mix - within must have the sign of mix, each by 2.33 standard errors: 99% at one look. That a part is not 0 is
certain at every look; its rank is not.

**Spread** of a change within segments. Let D(s) be the change within group s, and the rest all groups but s, weighted
with their shares of now. A group is a carrier if D(s) certainly exceeds the change of the rest, in the direction of the
whole. `few`: there are carriers, and the groups without them did not certainly change. `all`: without any single group
the others still certainly changed that way, and either no group differs from its rest, or the groups that are no
carriers certainly changed as well.

**Resolution.** If the truth is d, the estimate exceeds d - 2.33 standard errors in 99% of cases, to first order. So a
change is named if it exceeds half-width + 2.33 standard errors of both parts, and 4.66 standard errors of the rank.

Source: as `mix_shift.py`; Bonferroni over the parts, and over the groups.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..means.segment_moments import Stretches
from ..tables.batches import Floats
from .mix_shift import INDEPENDENT, DesignEffects, PartOfChange, SplitChange, split_change, weighted_changes

Verdict = Literal["mix", "within", "both", "neither", "unresolved"]
Spread = Literal["all", "few"]

POWER_Z: Final = 2.33
"""Quantile of the normal distribution of 99%: the chance that a change of the stated resolution is named."""


@dataclass(frozen=True, slots=True)
class SpreadOfChange:
    """Where a change within segments happened; places of groups."""

    spread: Spread | None
    """None while it is not resolved, and with a single group."""
    carriers: tuple[int, ...]
    """Groups that certainly changed more than the rest, the largest contribution first."""
    resolution: float
    """The smallest change within segments whose spread this much data could name; infinite with a single group."""


@dataclass(frozen=True, slots=True)
class MixVerdict:
    """The split of one change, with its name."""

    parts: SplitChange
    """The intervals of `mix` and `within` hold together at the confidence."""
    verdict: Verdict
    resolution: float
    """The smallest change, of 0 to 1, that this much data could name, if its other part is 0 or as large."""
    spread: SpreadOfChange | None
    """Of the change within segments; None unless that is certain."""


def mix_verdict(
    compared: Stretches,
    *,
    confidence: float = 0.95,
    min_effect: float = 0.02,
    effects: DesignEffects = INDEPENDENT,
    spread: bool = True,
) -> MixVerdict:
    """Return the split of a change with its name, at any look.

    Args:
        compared: the two stretches; one axis.
        confidence: level in (0, 1).
        min_effect: change that does not matter, on the scale of 0 to 1.
        spread: whether to look where a change within segments happened.

    Raises: ValueError for an argument out of its range.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: give a level between 0 and 1, such as 0.95")
    alpha = (1 - confidence) / 2
    parts = split_change(compared, alpha=alpha, effects=effects)
    needed = [part.half_width + POWER_Z * part.standard_error for part in (parts.mix, parts.within)]
    needed += [2 * POWER_Z * part.standard_error for part in (parts.total, parts.mix_minus_within)]
    resolution = float(max(needed))
    where = _spread(compared, parts.within, alpha, effects) if spread and sign(parts.within) else None
    return MixVerdict(parts, _named(parts, min_effect), resolution, where)


def sign(part: PartOfChange) -> int:
    """Return the certain direction of a part, 1 or -1; 0 if its interval holds 0."""
    return int(part.lower > 0) - int(part.upper < 0)


def _named(parts: SplitChange, min_effect: float) -> Verdict:
    mix, within = sign(parts.mix), sign(parts.within)
    total, larger = _likely_sign(parts.total), _likely_sign(parts.mix_minus_within)
    if mix and within:
        return "both"
    if mix and total == larger == mix:
        return "mix"
    if within and total == -larger == within:
        return "within"
    small = all(part.lower >= -min_effect and part.upper <= min_effect for part in (parts.mix, parts.within))
    return "neither" if small else "unresolved"


def _likely_sign(part: PartOfChange) -> int:
    return int(np.sign(part.estimate)) if abs(part.estimate) > POWER_Z * part.standard_error else 0


def compared_groups(compared: Stretches) -> NDArray[np.intp]:
    """Return the places of the groups whose means can be compared: known before, and seen since."""
    return np.flatnonzero(compared.known & (compared.since.n > 0))


def changes_within(compared: Stretches, *, alpha: float, effects: DesignEffects = INDEPENDENT) -> PartOfChange:
    """Return the change within each group of `compared_groups`; the intervals hold together."""
    places = compared_groups(compared)
    weights = np.eye(compared.since.n.size)[places]
    return weighted_changes(compared, weights, alpha=alpha / max(places.size, 1), effects=effects)


def _spread(compared: Stretches, within: PartOfChange, alpha: float, effects: DesignEffects) -> SpreadOfChange:
    places = compared_groups(compared)
    if places.size < 2:
        return SpreadOfChange(None, (), np.inf)
    shares = np.where(np.isin(np.arange(compared.since.n.size), places), compared.since.shares, 0.0)

    def sums(weights: Floats) -> PartOfChange:
        return weighted_changes(compared, weights, alpha=alpha / len(weights), effects=effects)

    single = np.eye(shares.size)[places]
    others = shares * (1 - single)
    rest = sums(others / others.sum(axis=-1, keepdims=True))
    ahead = sums(single - others / others.sum(axis=-1, keepdims=True))
    way = sign(within)
    carries = (ahead.lower if way > 0 else -ahead.upper) > 0
    order = np.argsort(-way * shares[places] * (compared.since.mean - compared.reference.mean)[places], kind="stable")
    carriers = tuple(int(places[k]) for k in order if carries[k])
    moved_without_any = bool(np.all((rest.lower if way > 0 else -rest.upper) > 0))
    left = np.where(np.isin(np.arange(shares.size), carriers), 0.0, shares)
    remains = sums(left[None]) if carriers and left.any() else rest
    moved = bool(np.all((remains.lower if way > 0 else -remains.upper) > 0))
    same = bool(np.all((ahead.lower <= 0) & (ahead.upper >= 0)))
    spread: Spread | None = None
    if carriers and left.any() and not moved:
        spread = "few"
    elif moved_without_any and (same or (carriers and moved)):
        spread = "all"
    needed = shares[places].sum() * (rest.half_width + POWER_Z * rest.standard_error)
    alone = shares[places] * (ahead.half_width + POWER_Z * ahead.standard_error)
    return SpreadOfChange(spread, carriers, float(max(needed.max(), alone.max())))
