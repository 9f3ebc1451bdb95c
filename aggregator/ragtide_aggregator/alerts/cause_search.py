"""The search for the cause of an alert while it fires: other traffic or answers, and which step. No clock, no I/O.

The stretch since the change begins at the alarm, not at the estimated change point. The alarm is a stopping time, so
the interactions after it are not chosen by their scores, and the intervals of `statistics.mix_shift` hold for them at
every look. The search looks when so many interactions came since the alarm as in `LOOKS`, and ends when it has named
the cause. It waits for one more look if the part is known, and the segment values that changed are not.

The same looks compare what each step had before the change with what it had since the alarm, to name the steps that
moved by themselves. An alert is explained once, so what is known first waits for the other for `MOST_WAITS` looks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from ragtide_schemas import Alert, ChangeCause, SegmentShare, StepCause, StepChange, StepName
from ragtide_schemas.metric_definitions import AGENT_CALLS, AGENT_WASTED
from ragtide_schemas.step_metrics import (
    GENERATOR,
    STEP_FAMILY,
    TOOL_FAMILY,
    ComponentKind,
    StepMetric,
    ToolMetric,
    kind_of,
)

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
from ..statistics.causes.moved_step import Component, NumberChange, StepNumber, StepQuantity, moved_steps
from ..statistics.intervals.intervals import Interval
from ..statistics.means.segment_moments import SegmentMoments, stretches
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

EXPLAINED_FAMILIES: Final = (
    "trace.", "ragchecker.", "criteria.", "answer.relevance", "answer.correctness", "answer.contradiction",
    "answer.refused", "agent.", "tool.",
)  # fmt: skip
"""Beginnings of the metrics of quality and of runs: a step is searched for when one of them alerts."""

MOST_CHANGES: Final = 6
"""Changes of steps that a cause states."""

ADHERENCE: Final = "trace.adherence"
"""Metric of the answer that is a number of the generator, too."""


_OF_TOOLS: Final[tuple[StepQuantity, ...]] = ("yield", "failed", "relevant", "used")


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


class StepKey(NamedTuple):
    """One number of one step."""

    step: str
    kind: ComponentKind
    quantity: StepQuantity

    @classmethod
    def of(cls, metric: str, version: str | None) -> "StepKey | None":
        """Return the number that a metric is; None for a metric that is none.

        Args:
            metric: its qualified name.
            version: of its declaration; None for ragtide's own metrics.
        """
        if metric == ADHERENCE:
            return cls(GENERATOR, "generator", "adherence")
        if metric in RUN_COUNTS:
            return RUN_COUNTS[metric]
        kind = None if version is None else kind_of(version)
        if kind == "tool":
            tool = ToolMetric.read(metric)
            quantity = next((known for known in _OF_TOOLS if tool is not None and known == tool.quantity), None)
            return None if tool is None or quantity is None else cls(tool.tool, kind, quantity)
        number = StepMetric.read(metric)
        return None if number is None or kind is None else cls(number.step, kind, number.quantity)

    @property
    def metric(self) -> str:
        """Qualified name of the number; `tool.NAME.called` is no metric with scores."""
        if self.quantity == "adherence":
            return ADHERENCE
        return f"{TOOL_FAMILY if self.kind == 'tool' else STEP_FAMILY}{self.step}.{self.quantity}"


LABELED_RUNS: Final = StepKey("", "tool", "called")
"""Number of runs of an agent, with labels: of these each tool is called in the first round of a share."""

ALL_RUNS: Final = StepKey("", "tool", "asked")
"""Number of runs of an agent: in a share of these each tool is called."""

RUN_COUNTS: Final[Mapping[str, StepKey]] = {AGENT_WASTED.name: LABELED_RUNS, AGENT_CALLS.name: ALL_RUNS}
"""The metrics of runs that count them."""


class StepBefore(NamedTuple):
    """One number of one step before an alarm."""

    step: str
    kind: ComponentKind
    quantity: StepQuantity
    reference: SegmentMoments
    """Of the stretch before the change."""
    at_alarm: SegmentMoments
    """Of everything up to the alarm."""


StepMoments = Mapping[StepKey, SegmentMoments]
"""Moments of the numbers of steps, each of shape (1,)."""


def step_moments(keys: Sequence[StepKey], moments: SegmentMoments) -> StepMoments:
    """Return the moments of numbers of steps, and of the shares of the runs that begin with each tool or call it.

    A tool has a yield in a run exactly if the first round calls it. Yield and wasted calls both need the labels of the
    run, so that runs without labels do not change the share, if they begin with the same tools as others. Calls fail or
    not in every run that has one.

    Args:
        keys: of the numbers; with `LABELED_RUNS` and `ALL_RUNS` if there are runs.
        moments: in the order of the keys.
    """
    by_key = {key: _at(moments, place) for place, key in enumerate(keys)}
    counts: tuple[tuple[StepKey, StepQuantity], ...] = ((LABELED_RUNS, "yield"), (ALL_RUNS, "failed"))
    for of, quantity in counts:
        runs = by_key.pop(of, None)
        if runs is not None:
            for key in [key for key in by_key if key.kind == "tool" and key.quantity == quantity]:
                share = np.minimum(by_key[key].n / np.maximum(runs.n, 1), 1.0)
                by_key[key._replace(quantity=of.quantity)] = SegmentMoments(runs.n, share, runs.n * share * (1 - share))
    return by_key


def steps_before(reference: StepMoments, at_alarm: StepMoments) -> tuple[StepBefore, ...]:
    """Return numbers of steps before an alarm."""
    return tuple(StepBefore(*key, moments, at_alarm[key]) for key, moments in reference.items())


class MomentsNow(NamedTuple):
    """A metric of a pipeline at a look; moments are of everything so far, each of shape (1,)."""

    whole: SegmentMoments
    segments: Mapping[str, Mapping[str, SegmentMoments]]
    """Of each value, by name of the segment and value."""
    effects: DesignEffects
    value_range: tuple[float, float]
    """Of the metric."""
    steps: StepMoments = MappingProxyType({})
    """Numbers of steps and tools."""


class ComparedSegment(NamedTuple):
    """One segment before a change and since the alarm."""

    values: tuple[str, ...]
    """The last has the interactions with none of the others."""
    before: SegmentMoments
    since: SegmentMoments

    def may_tell(self, now: MomentsNow, confidence: float) -> bool:
        """Return whether there is a verdict; an explanation takes several times as long."""
        compared = stretches(self.before, self.since)
        if not may_be_certain(compared, effects=now.effects):
            return False
        return mix_verdict(compared, confidence=confidence, effects=now.effects, spread=False).verdict != "unresolved"

    def explained(self, now: MomentsNow, confidence: float) -> ExplainedChange:
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

    def look(self, now: MomentsNow) -> bool:
        """Take a look; return whether the alert is explained now, by `cause` and `moved_step`."""
        self.looks += 1
        last = self.looks == len(LOOKS)
        if self.segments:
            self._look_at_segments(now, last=last)
        if self.steps is not None:
            self.moved_step = _step_cause(self.steps, now)
            if self.moved_step is None or self.moved_step.verdict == "moved":
                self.steps = None
        named = self.cause is not None or (self.moved_step is not None and self.moved_step.verdict != "unresolved")
        if named and (self.segments or self.steps):
            self.waits += 1
        over = last or self.waits > MOST_WAITS or not (self.segments or self.steps)
        if over:
            self.segments, self.steps = {}, None
        return over and (self.cause is not None or self.moved_step is not None)

    def _look_at_segments(self, now: MomentsNow, *, last: bool) -> None:
        stretches_of = {name: self._stretches(before, now) for name, before in self.segments.items()}
        # Values that were lost, as by a repair, leave no stretch since the alarm.
        lost = None in stretches_of.values()
        compared = {name: stretch for name, stretch in stretches_of.items() if stretch is not None}
        confidence = 1 - (1 - CONFIDENCE) / len(self.segments)
        changes = {}
        if not lost and (last or any(comparison.may_tell(now, confidence) for comparison in compared.values())):
            changes = {name: comparison.explained(now, confidence) for name, comparison in compared.items()}
        if changes:
            name = explains_most(changes)
            # A change within one segment may be the mix of another, as long as that is not resolved.
            open_names = [
                segment for segment, change in changes.items() if segment != name and change.verdict == "unresolved"
            ]
            if self._tells(changes[name], waits=bool(open_names), last=last):
                self.cause = _cause(name, changes[name], open_names)
        if self.cause is not None or last or lost:
            self.segments = {}

    def _stretches(self, before: SegmentBefore, now: MomentsNow) -> "ComparedSegment | None":
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
        certain = any(part.lower > 0 or part.upper < 0 for part in (change.mix, change.within))
        if change.verdict == "unresolved" or (waits and change.verdict in ("within", "neither")):
            self.named = False
            return last and (certain or change.verdict == "neither")
        # A spread cannot be known where no two segment values can be compared.
        located = change.verdict in ("mix", "neither") or change.spread is not None
        waited, self.named = self.named, True
        return located or waited or last


def _cause(name: str, change: ExplainedChange, open_names: Sequence[str]) -> ChangeCause:
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
    before, since = (
        Interval(*(min(max(value, 0.0), 1.0) for value in (share.estimate, share.lower, share.upper)))
        for share in part.share
    )
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


def _joined(parts: list[SegmentMoments]) -> SegmentMoments:
    arrays = zip(*((part.n, part.mean, part.m2) for part in parts), strict=True)
    return SegmentMoments(*(np.concatenate(array).astype(np.float64) for array in arrays))


def _at(moments: SegmentMoments, place: int) -> SegmentMoments:
    return SegmentMoments(*(array[place : place + 1] for array in (moments.n, moments.mean, moments.m2)))


def _step_cause(steps: Sequence[StepBefore], now: MomentsNow) -> StepCause | None:
    numbers = []
    for step, kind, quantity, reference, at_alarm in steps:
        so_far = now.steps.get(StepKey(step, kind, quantity))
        if so_far is None or so_far.n[0] < at_alarm.n[0]:
            return None
        numbers.append(StepNumber(step, kind, quantity, reference, so_far.since(at_alarm)))
    compared = moved_steps(numbers, confidence=CONFIDENCE, looks=len(LOOKS), effects=now.effects)
    return StepCause(
        verdict="unresolved" if not compared.moved else "partly" if compared.possible else "moved",
        moved=_names(compared.moved),
        possible=_names(compared.possible),
        unmoved=_names(compared.unmoved),
        n_before=int(max(number.before.n[0] for number in numbers)),
        n_since=int(max(number.since.n[0] for number in numbers)),
        confidence=CONFIDENCE,
        changes=tuple(map(_step_change, compared.evidence[:MOST_CHANGES])),
        called=tuple(map(_step_change, compared.called[:MOST_CHANGES])) or None,
    )


def _step_change(change: NumberChange) -> StepChange:
    return StepChange(
        step=change.step,
        metric=StepKey(change.step, change.kind, change.quantity).metric,
        before=change.before,
        since=change.since,
        lower=change.lower,
        upper=change.upper,
    )


def _names(steps: Sequence[Component]) -> tuple[StepName, ...]:
    return tuple(StepName(step=step.step, kind=step.kind) for step in steps)
