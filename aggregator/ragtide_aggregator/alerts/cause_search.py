"""The search for the cause of an alert while it fires: other traffic or answers, and which step. No clock, no I/O.

The stretch since the change begins at the alarm, not at the estimated change point. The alarm is a stopping time, so
the interactions after it are not chosen by their scores, and the intervals of `statistics.mix_shift` hold for them at
every look. The search looks when so many interactions came since the alarm as in `LOOKS`, and ends when it has named
the cause. It waits for one more look if the part is known, and the segment values that changed are not.

The steps that moved by themselves are searched for beside it (`step_search.py`). An alert is explained once, so what is
known first waits for the other for `MOST_WAITS` looks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from ragtide_schemas import Alert, ChangeCause, SegmentShare, StepCause

from ..statistics.causes.change_in_words import in_words
from ..statistics.causes.explained_change import (
    ExplainedChange,
    SegmentPart,
    explained_change,
    explains_most,
    without,
)
from ..statistics.causes.mix_shift import DesignEffects, may_be_certain
from ..statistics.causes.mix_verdict import mix_verdict
from ..statistics.intervals.intervals import Interval
from ..statistics.means.segment_moments import SegmentMoments, stretches
from .step_search import StepBefore, StepKey, look_at_steps
from .stored_form import LEFT_OUT

LOOKS: Final = (200, 400, 800, 1_600, 3_200)
"""Interactions since the alarm at which the search looks; after the last look it ends."""

MOST_WAITS: Final = 2
"""Looks for which one of the two, the traffic or the steps, waits for the other, and for which a step that is known
waits for the others."""

MOST_VALUES: Final = 64
"""Values of a segment with moments of their own, the most frequent; the others are one group."""

MOST_NAMES: Final = 8
"""Segments that are compared."""

CONFIDENCE: Final = 0.95
"""Confidence of the intervals of a cause, at every look, for all segments together."""

MOST_SHARES: Final = 3
"""Segment values whose shares a cause states."""

SMALLEST: Final = 0.02
"""Change that does not matter, as a part of the metric's range."""


@dataclass(frozen=True, slots=True)
class SegmentBefore:
    """One segment before an alarm; the moments are in the order of its values."""

    name: str
    values: tuple[str, ...]
    """As `lang=de`."""
    complete: bool
    """Whether these were all values; a value that comes later is then a new one."""
    reference: SegmentMoments
    """Of the stretch before the change."""
    at_alarm: SegmentMoments
    """Of everything up to the alarm."""


class SegmentsNow(NamedTuple):
    """A metric of a pipeline with segments at a look; moments are of everything so far, each of shape (1,)."""

    whole: SegmentMoments
    segments: Mapping[str, Mapping[str, SegmentMoments]]
    """Of each value, by name of the segment and value."""
    effects: DesignEffects
    value_range: tuple[float, float]
    """Of the metric."""
    steps: Mapping[StepKey, SegmentMoments] = MappingProxyType({})
    """Numbers of retrieval steps."""


class ComparedSegment(NamedTuple):
    """One segment before a change and since the alarm."""

    values: tuple[str, ...]
    """The last has the interactions with none of the others."""
    before: SegmentMoments
    since: SegmentMoments

    def may_tell(self, now: SegmentsNow, confidence: float) -> bool:
        """Return whether there is a verdict; an explanation takes several times as long."""
        found = stretches(self.before, self.since)
        if not may_be_certain(found, effects=now.effects):
            return False
        return mix_verdict(found, confidence=confidence, effects=now.effects, spread=False).verdict != "unresolved"

    def explained(self, now: SegmentsNow, confidence: float) -> ExplainedChange:
        """Return the change explained by the values."""
        lowest, highest = now.value_range
        return explained_change(
            self.values,
            self.before,
            self.since,
            confidence=confidence,
            min_effect=SMALLEST * (highest - lowest),
            effects=now.effects,
            value_range=now.value_range,
        )


@dataclass(slots=True)
class CauseSearch:
    """The search for the cause of one alert."""

    whole: tuple[SegmentMoments, SegmentMoments]
    """Of the whole pipeline in the stretch before the change, and up to the alarm; each of shape (1,)."""
    segments: dict[str, SegmentBefore] = field(default_factory=dict)
    """By name; empty when the cause is named, or cannot be."""
    looks: int = 0
    """Number of looks so far."""
    named: bool = False
    """Whether the last look knew the part of the change."""
    cause: ChangeCause | None = None
    steps: tuple[StepBefore, ...] | None = field(default=None, metadata=LEFT_OUT)
    """None when every step is known, or cannot be, and without steps."""
    moved_step: StepCause | None = field(default=None, metadata=LEFT_OUT)
    """What the last look knew of the steps."""
    waits: int = field(default=0, metadata=LEFT_OUT)
    """Looks for which what is known waited for the other."""
    alert: Alert = field(init=False)
    """As it fired; its rule stores it."""

    @property
    def next_n(self) -> int | None:
        """Number of values of the whole pipeline at the next look; None when the search is over."""
        return int(self.whole[1].n[0]) + LOOKS[self.looks] if self.segments or self.steps else None

    def look(self, now: SegmentsNow) -> bool:
        """Take a look; return whether the alert is explained now, by `cause` and `moved_step`."""
        self.looks += 1
        last = self.looks == len(LOOKS)
        if self.segments:
            self._look_at_segments(now, last=last)
        if self.steps is not None:
            self.moved_step = look_at_steps(self.steps, now.steps, now.effects, confidence=CONFIDENCE, looks=len(LOOKS))
            if self.moved_step is None or self.moved_step.verdict == "moved":
                self.steps = None
        named = self.cause is not None or (self.moved_step is not None and self.moved_step.verdict != "unresolved")
        if named and (self.segments or self.steps):
            self.waits += 1
        over = last or self.waits > MOST_WAITS or not (self.segments or self.steps)
        if over:
            self.segments, self.steps = {}, None
        return over and (self.cause is not None or self.moved_step is not None)

    def _look_at_segments(self, now: SegmentsNow, *, last: bool) -> None:
        """Name the cause if it is known now."""
        stretches_of = {name: self._stretches(before, now) for name, before in self.segments.items()}
        # Values that were lost, as by a repair, leave no stretch since the alarm.
        lost = None in stretches_of.values()
        compared = {name: stretch for name, stretch in stretches_of.items() if stretch is not None}
        confidence = 1 - (1 - CONFIDENCE) / len(self.segments)
        found = {}
        if not lost and (last or any(comparison.may_tell(now, confidence) for comparison in compared.values())):
            found = {name: comparison.explained(now, confidence) for name, comparison in compared.items()}
        if found:
            name = explains_most(found)
            # A change within one segment may be the mix of another, as long as that is not resolved.
            open_names = [
                segment for segment, change in found.items() if segment != name and change.verdict == "unresolved"
            ]
            if self._tells(found[name], waits=bool(open_names), last=last):
                self.cause = _cause(name, found[name], open_names)
        if self.cause is not None or last or lost:
            self.segments = {}

    def _stretches(self, before: SegmentBefore, now: SegmentsNow) -> "ComparedSegment | None":
        """Return one segment before and since the alarm; None if values were lost."""
        nothing = SegmentMoments(*np.zeros((3, 1)))
        here = now.segments.get(before.name, {})
        known = _joined([here.get(value, nothing) for value in before.values])
        if np.any(known.n < before.at_alarm.n):
            return None
        new = [value for value in here if value not in before.values and here[value].n[0]] if before.complete else []
        new = sorted(new, key=lambda value: (-here[value].n[0], value))[: MOST_VALUES - len(before.values)]
        return ComparedSegment(
            (*before.values, *new, without(before.name) if before.complete else f"other {before.name}"),
            _joined([before.reference, *(nothing for _ in new)]).with_rest(self.whole[0]),
            _joined([known.since(before.at_alarm), *(here[value] for value in new)]).with_rest(
                now.whole.since(self.whole[1])
            ),
        )

    def _tells(self, change: ExplainedChange, *, waits: bool, last: bool) -> bool:
        """Return whether a look names the cause: it is known, with its segments, or as far as it can be at the last."""
        certain = any(part.lower > 0 or part.upper < 0 for part in (change.mix, change.within))
        if change.verdict == "unresolved" or (waits and change.verdict in ("within", "neither")):
            self.named = False
            return last and (certain or change.verdict == "neither")
        # A spread cannot be known where no two segment values can be compared.
        located = change.verdict in ("mix", "neither") or change.spread is not None
        waited, self.named = self.named, True
        return located or waited or last


def _cause(name: str, change: ExplainedChange, open_names: Sequence[str]) -> ChangeCause:
    """Return the cause; while other segments may still explain a change by their mix, it is not resolved."""
    verdict, text = change.verdict, in_words(change)
    if open_names and verdict in ("within", "neither"):
        verdict, text = "unresolved", f"not resolved: by {name} {text}, by {' and '.join(open_names)} not known"
    (n_before, n_since), mix, within = change.n, change.mix, change.within
    return ChangeCause(
        verdict=verdict,
        segment=name,
        spread=change.spread if verdict in ("within", "both") else None,
        carriers=tuple(segment.name for segment in change.segments if segment.is_carrier),
        n_before=n_before,
        n_since=n_since,
        mix=mix.estimate,
        mix_lower=mix.lower,
        mix_upper=mix.upper,
        within=within.estimate,
        within_lower=within.lower,
        within_upper=within.upper,
        confidence=CONFIDENCE,
        shares=tuple(_share(segment) for segment in change.segments[:MOST_SHARES]),
        text=text,
    )


def _share(part: SegmentPart) -> SegmentShare:
    before, since = (_within_one(share) for share in part.share)
    return SegmentShare(
        value=part.name,
        before=before.estimate,
        before_lower=before.lower,
        before_upper=before.upper,
        since=since.estimate,
        since_lower=since.lower,
        since_upper=since.upper,
        mean_before=part.mean[0],
        mean_since=part.mean[1],
    )


def _within_one(share: Interval[float, float]) -> Interval[float, float]:
    return Interval(*(min(max(value, 0.0), 1.0) for value in (share.estimate, share.lower, share.upper)))


def _joined(parts: list[SegmentMoments]) -> SegmentMoments:
    arrays = zip(*((part.n, part.mean, part.m2) for part in parts), strict=True)
    return SegmentMoments(*(np.concatenate(array).astype(np.float64) for array in arrays))
