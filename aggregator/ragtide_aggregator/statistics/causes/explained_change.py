"""A change of a mean explained by the values of one segment name: the split, and each value's part in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ..intervals.intervals import Interval
from ..intervals.running import running_interval
from ..means.segment_moments import SegmentMoments, Stretches, stretches
from ..tables.batches import Floats
from .mix_shift import INDEPENDENT, DesignEffects, PartOfChange
from .mix_verdict import MixVerdict, Spread, Verdict, changes_within, compared_groups, mix_verdict
from .standardized import standardized_mean

RARE_VALUES: Final = "rare values"
"""Name of the group of segment values that are rare in the reference stretch."""


def without(name: str) -> str:
    """Return the name of the interactions that do not have a segment.

    >>> without("lang")
    'no lang'
    """
    return f"no {name}"


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """One segment value in a change; shares are parts of 1, all else is in the metric's unit."""

    name: str
    n: tuple[int, int]
    """Items before and since."""
    share: tuple[Interval[float, float], Interval[float, float]]
    mean: tuple[float | None, float | None]
    """None without items."""
    change: Interval[float, float] | None
    """Of its mean; the intervals of all segment values hold together. None if it has no mean before, or none since."""
    mix: float
    """Its part in the change of the mix: positive if more of it, or less of it, raised the mean."""
    within: float
    """Its part in the change within segments."""
    is_carrier: bool
    """Whether it certainly changed more than the rest."""
    is_new: bool
    """Whether it was too rare before to have a mean to compare with: all its change counts as mix."""


@dataclass(frozen=True, slots=True)
class ExplainedChange:
    """A change of a mean, explained by one segment name; in the metric's unit."""

    n: tuple[int, int]
    mean: tuple[float, float]
    total: Interval[float, float]
    mix: Interval[float, float]
    within: Interval[float, float]
    """`mix` and `within` hold together at the confidence, at every look."""
    at_shares_before: Interval[float, float]
    """The mean since, with the shares of segments held at those before; segment values that are gone leave it open."""
    verdict: Verdict
    resolution: float
    """The smallest change that this much data could name, if its other part is 0 or as large."""
    spread: Spread | None
    """Where the change within segments happened; None if there is none, or it is not resolved."""
    spread_resolution: float | None
    """The smallest change within segments whose spread could be named; None unless that change is certain."""
    confidence: float
    min_effect: float
    segments: tuple[SegmentPart, ...]
    """The largest part in the change first."""

    @property
    def certain(self) -> float:
        """How much of the change the segments explain for certain: by their mix, or by being unequally affected."""
        by_mix = max(self.mix.lower, -self.mix.upper, 0.0)
        carried = sum(abs(segment.within) for segment in self.segments if segment.is_carrier)
        return max(by_mix, carried)


def explains_most(changes: Mapping[str, ExplainedChange]) -> str:
    """Return the name of the segment that explains most of a change for certain; among equals the sharpest.

    Args:
        changes: the change explained by each segment, at least one.
    """
    return max(changes, key=lambda name: (changes[name].certain, -changes[name].resolution))


def explained_change(
    names: Sequence[str],
    reference: SegmentMoments,
    since: SegmentMoments,
    *,
    confidence: float = 0.95,
    min_effect: float = 0.02,
    effects: DesignEffects = INDEPENDENT,
    value_range: tuple[float, float] = (0.0, 1.0),
) -> ExplainedChange:
    """Return a change explained by the values of a segment name.

    Args:
        reference: moments of their scores before, scaled to [0, 1].
        since: the same since the change.
        confidence: level in (0, 1), valid at every look.
        min_effect: change that does not matter, in the metric's unit.
        value_range: lowest and highest possible score.

    Raises: ValueError for an argument out of its range.
    """
    lowest, highest = value_range
    width = highest - lowest
    compared = stretches(reference, since)
    verdict = mix_verdict(compared, confidence=confidence, min_effect=min_effect / width, effects=effects)
    parts, spread = verdict.parts, verdict.spread
    held = standardized_mean(
        compared.since, compared.reference.shares, alpha=1 - confidence, design_effect=effects.scores
    )
    return ExplainedChange(
        n=(int(reference.total), int(since.total)),
        mean=(lowest + width * float(reference.overall), lowest + width * float(since.overall)),
        total=_bounded(parts.total, width),
        mix=_bounded(parts.mix, width),
        within=_bounded(parts.within, width),
        at_shares_before=Interval(
            *(lowest + width * float(number) for number in (held.estimate, held.lower, held.upper))
        ),
        verdict=verdict.verdict,
        resolution=width * verdict.resolution,
        spread=None if spread is None else spread.spread,
        spread_resolution=None if spread is None else width * spread.resolution,
        confidence=confidence,
        min_effect=min_effect,
        segments=_segments(names, compared, verdict, _Unit(lowest, width), 1 - confidence, effects=effects),
    )


def _bounded(part: PartOfChange, width: float, place: int | None = None) -> Interval[float, float]:
    ends = (part.estimate, part.lower, part.upper)
    return Interval(*(width * float(end if place is None else end[place]) for end in ends))


class _Unit(NamedTuple):
    """Range of the metric."""

    lowest: float
    width: float

    def mean(self, moments: SegmentMoments, group: int) -> float | None:
        """Return the mean of a group in the metric's unit; None without items."""
        return self.lowest + self.width * float(moments.mean[group]) if moments.n[group] else None


def _segments(
    names: Sequence[str], compared: Stretches, verdict: MixVerdict, unit: _Unit, alpha: float, *, effects: DesignEffects
) -> tuple[SegmentPart, ...]:
    before, after, known = compared.reference, compared.since, compared.known
    changes = changes_within(compared, alpha=alpha, effects=effects)
    place_of = {int(group): place for place, group in enumerate(compared_groups(compared))}
    shares = [_shares(moments, 1 - alpha, effects.segments) for moments in (before, after)]
    level = before.overall
    scored = np.where(known, before.mean, after.mean)
    mix = after.shares * (scored - level) - before.shares * (before.mean - level)
    within = np.where(known, after.shares * (after.mean - before.mean), 0.0)
    carriers = () if verdict.spread is None else verdict.spread.carriers
    result = []
    for group, name in enumerate([*names, RARE_VALUES]):
        n = int(before.n[group]), int(after.n[group])
        if not any(n):
            continue
        place = place_of.get(group)
        result.append(
            SegmentPart(
                name=name,
                n=n,
                share=(shares[0][group], shares[1][group]),
                mean=(unit.mean(before, group), unit.mean(after, group)),
                change=None if place is None else _bounded(changes, unit.width, place),
                mix=unit.width * float(mix[group]),
                within=unit.width * float(within[group]),
                is_carrier=group in carriers,
                is_new=not known[group],
            )
        )
    return tuple(sorted(result, key=lambda segment: (-max(abs(segment.mix), abs(segment.within)), segment.name)))


def _shares(moments: SegmentMoments, confidence: float, effect: float) -> list[Interval[float, float]]:
    shares: Floats = moments.shares
    n = np.full(shares.shape, moments.total)
    has = SegmentMoments(n, shares, n * shares * (1 - shares))
    lower, upper = running_interval(shares, n, effect * has.v, confidence=confidence)
    return [Interval(*ends) for ends in zip(shares.tolist(), lower.tolist(), upper.tolist(), strict=True)]
