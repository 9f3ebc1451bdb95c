"""Which retrieval step moved, from the numbers of each step before a change and since. No clock, no I/O.

A fault of a retriever moves what a reranker makes of it, so the first step that moved is the one to name. Numbers from
labels alone cannot find it: only sentences that a reranker kept have labels, so a worse reranker lowers the relevance
of every retriever, and a good one hides a worse retriever. A generator or harder questions may move labels, too. So
each name needs two kinds of evidence, from labels and from the documents themselves:

- **A retriever**, with a reranker after it: what the retrievers return together certainly moved (`agreement` of a
  retriever, over all that it returned, which no later step chose), and the used sentences that it had certainly fell
  (`used_recall`), further than those of any other retriever.
- **The reranker**: what the retrievers return certainly did not move (each agreement is the same within `SAME` of its
  standard deviation), the reranker's choice among it certainly moved (its `agreement`), and the relevance of the choice
  certainly fell.
- **A retriever**, without a reranker: the relevance of its documents certainly fell, further than that of any other
  retriever. Whatever else lowers relevance lowers it for all.

All else is not resolved: two steps that moved, a single retriever, retrievers of which nothing is shared, several
rerankers of which one moved.

**Certain** are intervals that hold at every look, all together: each difference of two means has a half-width of
`joint_boundary.py`, at a share of the error that is equal for each number. "The same" is certain in the same way: the
whole interval lies within the margin. So a step is named wrongly with at most the stated probability, if the traffic
before and since the alarm differs by the fault alone.

Source: boundaries as in `joint_boundary.py`; names by simulation: docs/measured/moved_steps.md (`make movedsteps`).
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from ..means.segment_moments import SegmentMoments, Stretches
from .mix_shift import DesignEffects, weighted_changes

StepKind = Literal["retriever", "reranker"]
"""As `RetrievalStep.kind` of the schema, on which statistics do not depend."""

StepQuantity = Literal["relevance", "used_recall", "agreement"]
"""As the last part of the names of the metrics of a step."""

SAME: Final = 0.25
"""Largest change of an agreement that counts as none, in standard deviations of an interaction's agreement before."""

LEAST_N: Final = 50
"""Values of a number before and since, without which it is not compared."""


class StepNumber(NamedTuple):
    """One number of one step: its values before a change, and since; moments of shape (1,)."""

    step: str
    kind: StepKind
    quantity: StepQuantity
    before: SegmentMoments
    since: SegmentMoments


class NumberChange(NamedTuple):
    """The change of one number of one step."""

    step: str
    kind: StepKind
    quantity: StepQuantity
    before: float
    """Mean before."""
    since: float
    """Mean since."""
    lower: float
    """Lower end of the interval of since - before."""
    upper: float
    """Upper end."""
    margin: float
    """Change that counts as none."""

    @property
    def fell(self) -> bool:
        """Whether it certainly fell."""
        return self.upper < 0

    @property
    def moved(self) -> bool:
        """Whether it certainly fell or rose."""
        return self.upper < 0 or self.lower > 0

    @property
    def is_same(self) -> bool:
        """Whether it certainly did not move by more than the margin."""
        return -self.margin < self.lower and self.upper < self.margin


_Steps = dict[str, dict[StepQuantity, NumberChange]]
"""Changes by step and quantity."""


class MovedStep(NamedTuple):
    """The step that moved, and the changes from which that follows."""

    step: str | None
    """Name of the step; None if it is not resolved."""
    kind: StepKind | None
    changes: tuple[NumberChange, ...]
    """Of all numbers that were compared."""
    evidence: tuple[NumberChange, ...]
    """Changes that name the step; without one, those that certainly moved."""


def moved_step(numbers: Sequence[StepNumber], *, confidence: float, effects: DesignEffects) -> MovedStep:
    """Return the first step of retrieval that moved, if that is certain.

    Args:
        numbers: of every step, each at most once.
        confidence: of all intervals together, at every look, in (0, 1).
        effects: of dependence among interactions.
    """
    known = [number for number in numbers if min(number.before.n[0], number.since.n[0]) >= LEAST_N]
    changes = _changes(known, (1 - confidence) / max(len(known), 1), effects)
    found: dict[StepKind, _Steps] = {"retriever": {}, "reranker": {}}
    for change in changes:
        found[change.kind].setdefault(change.step, {})[change.quantity] = change
    retrievers, rerankers = found["retriever"], found["reranker"]
    evidence = _retriever(retrievers, reranked=bool(rerankers)) or _reranker(retrievers, rerankers)
    if evidence:
        return MovedStep(evidence[0].step, evidence[0].kind, changes, evidence)
    return MovedStep(None, None, changes, tuple(change for change in changes if change.moved))


def _retriever(retrievers: _Steps, *, reranked: bool) -> tuple[NumberChange, ...]:
    """Return the changes that name a retriever, its own first; nothing if none is certain."""
    own: StepQuantity = "used_recall" if reranked else "relevance"
    found = [changes[own] for changes in retrievers.values() if own in changes]
    fell = [change for change in found if change.fell]
    if len(found) < 2 or len(found) < len(retrievers) or len(fell) != 1:
        return ()
    worst = fell[0]
    if any(change.lower <= worst.upper for change in found if change is not worst):
        return ()
    if not reranked:
        return (worst,)
    pools = [changes["agreement"] for changes in retrievers.values() if "agreement" in changes]
    moved = [change for change in pools if change.moved]
    return (worst, *moved) if moved else ()


def _reranker(retrievers: _Steps, rerankers: _Steps) -> tuple[NumberChange, ...]:
    """Return the changes that name the reranker, its own first; nothing if that is not certain."""
    if len(rerankers) != 1 or len(retrievers) < 2:
        return ()
    (own,) = rerankers.values()
    pools = [changes.get("agreement") for changes in retrievers.values()]
    choice, relevance = own.get("agreement"), own.get("relevance")
    if choice is None or relevance is None or not (choice.moved and relevance.fell):
        return ()
    same = [change for change in pools if change is not None and change.is_same]
    return (relevance, choice, *same) if len(same) == len(pools) else ()


def _changes(numbers: Sequence[StepNumber], alpha: float, effects: DesignEffects) -> tuple[NumberChange, ...]:
    if not numbers:
        return ()
    before, since = (
        _stacked([number.before for number in numbers]),
        _stacked([number.since for number in numbers]),
    )
    known = np.ones(before.n.shape, dtype=bool)
    # Together, because the search for the half-width is as fast for many as for one.
    part = weighted_changes(
        Stretches(before, since, known, ~known), np.ones(before.n.shape), alpha=alpha, effects=effects
    )
    spread = np.sqrt(before.m2 / before.n)[:, 0]
    return tuple(
        NumberChange(
            number.step,
            number.kind,
            number.quantity,
            float(number.before.mean[0]),
            float(number.since.mean[0]),
            float(lower),
            float(upper),
            SAME * float(deviation),
        )
        for number, lower, upper, deviation in zip(numbers, part.lower, part.upper, spread, strict=True)
    )


def _stacked(moments: Sequence[SegmentMoments]) -> SegmentMoments:
    return SegmentMoments(*(np.stack([getattr(part, name) for part in moments]) for name in ("n", "mean", "m2")))
