"""The search for the steps that moved by themselves, while an alert fires. No clock, no I/O.

It compares what each step had before the change with what it had since the alarm, as the search for other traffic does
(`cause_search.py`), and at the same looks.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ragtide_schemas import StepCause, StepChange, StepName
from ragtide_schemas.step_metrics import GENERATOR, ComponentKind, StepMetric, kind_of

from ..statistics.causes.mix_shift import DesignEffects
from ..statistics.causes.moved_step import Component, MovedSteps, NumberChange, StepNumber, StepQuantity, moved_steps
from ..statistics.means.segment_moments import SegmentMoments

EXPLAINED_FAMILIES: Final = (
    "trace.", "ragchecker.", "criteria.", "answer.relevance", "answer.correctness", "answer.contradiction",
    "answer.refused",
)  # fmt: skip
"""Beginnings of the metrics of quality: a step is searched for when one of them alerts."""

MOST_CHANGES: Final = 6
"""Changes that a cause states."""


ADHERENCE: Final = "trace.adherence"
"""Metric of the answer that is a number of the generator, too."""


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
        found, kind = StepMetric.read(metric), None if version is None else kind_of(version)
        return None if found is None or kind is None else cls(found.step, kind, found.quantity)


class StepBefore(NamedTuple):
    """One number of one step before an alarm."""

    step: str
    kind: ComponentKind
    quantity: StepQuantity
    reference: SegmentMoments
    """Of the stretch before the change."""
    at_alarm: SegmentMoments
    """Of everything up to the alarm."""


def steps_before(
    keys: Sequence[StepKey], reference: SegmentMoments, at_alarm: SegmentMoments
) -> tuple[StepBefore, ...]:
    """Return numbers of steps; the moments are in the order of the keys."""
    return tuple(StepBefore(*key, _at(reference, place), _at(at_alarm, place)) for place, key in enumerate(keys))


def look_at_steps(
    steps: Sequence[StepBefore],
    now: Mapping[StepKey, SegmentMoments],
    effects: DesignEffects,
    *,
    confidence: float,
    looks: int,
) -> StepCause | None:
    """Return what is known of the steps now; None if values were lost, as by a repair.

    Args:
        steps: all numbers before the alarm.
        now: moments of everything so far.
        effects: of dependence among interactions.
        confidence: of all intervals together.
        looks: most looks that are taken.
    """
    numbers = []
    for step, kind, quantity, reference, at_alarm in steps:
        so_far = now.get(StepKey(step, kind, quantity))
        if so_far is None or so_far.n[0] < at_alarm.n[0]:
            return None
        numbers.append(StepNumber(step, kind, quantity, reference, so_far.since(at_alarm)))
    return _cause(moved_steps(numbers, confidence=confidence, looks=looks, effects=effects), numbers, confidence)


def _at(moments: SegmentMoments, place: int) -> SegmentMoments:
    return SegmentMoments(*(array[place : place + 1] for array in (moments.n, moments.mean, moments.m2)))


def _cause(found: MovedSteps, numbers: Sequence[StepNumber], confidence: float) -> StepCause:
    return StepCause(
        verdict="unresolved" if not found.moved else "partly" if found.possible else "moved",
        moved=_names(found.moved),
        possible=_names(found.possible),
        unmoved=_names(found.unmoved),
        n_before=int(max(number.before.n[0] for number in numbers)),
        n_since=int(max(number.since.n[0] for number in numbers)),
        confidence=confidence,
        changes=tuple(map(_changed, found.evidence[:MOST_CHANGES])),
    )


def _names(steps: Sequence[Component]) -> tuple[StepName, ...]:
    return tuple(StepName(step=step.step, kind=step.kind) for step in steps)


def _changed(change: NumberChange) -> StepChange:
    quantity = change.quantity
    return StepChange(
        step=change.step,
        metric=ADHERENCE if quantity == "adherence" else StepMetric(change.step, quantity).name,
        before=change.before,
        since=change.since,
        lower=change.lower,
        upper=change.upper,
    )
