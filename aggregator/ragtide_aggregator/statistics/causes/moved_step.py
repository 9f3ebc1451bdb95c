"""Which steps moved by themselves, from the numbers of each step before a change and since. No clock, no I/O.

A fault of a retriever moves what a reranker makes of it, and a fault of the reranker moves what the generator answers
from. So each step is tested by numbers that stay as they are while the steps before it get worse
(`consumers/ragtide_consumers/metrics/steps.py` says why). Each step is found to have **moved**, to be **as before**, or
is **open**:

- **The reranker** moved if what the retrievers return is as before (their `agreement`), its `ranking` certainly fell,
  and the `order` of some retriever certainly moved. It is as before if its ranking is, and the order of some retriever.
- **A retriever**, with a reranker after it, moved if the reranker is as before, what the retrievers return certainly
  moved, and the used sentences that it had certainly fell (`used_recall`). It is as before if all agreements are; or if
  the reranker is as before, its own order is, and its `yield` did not fall by labels that agree with the reranker
  (`SHARP`).
- **A retriever**, without a reranker, moved if the relevance of its documents certainly fell while that of another
  retriever is as before: harder questions lower all. It is as before if its relevance is.
- **A tool** of an agent, called in the first round of some runs: what it brings there depends on the question and the
  agent alone, because a tool that breaks changes what the agent asks later. It moved if the relevant share of what it
  brings (its `yield`) certainly fell, and by more standard deviations than that of another such tool, which fell
  little if at all: harder questions lower all. Or if fewer of all its calls find something relevant (`relevant`) in
  the same comparison, while no such tool fell by more than a little. As many runs must begin with it as before
  (`called`), and none begin with another one certainly more or less: other questions come with other shares. Or if
  more of its calls fail (`failed`): questions do not make a tool time out. Or, if no tool moved in this way, if its
  results are used less in the same comparison (`used`). It is as before if its yield is, it fails no more, and its
  results are used as before.
- **Labels of fewer runs**, as of results in a language that the labeler does not read, would count as another share
  of the runs that begin with a tool. Then as many of all runs must call it (`asked`), and no tool is certainly as
  before.
- **A tool that is only called later** moved if more of its calls fail, or fewer find something relevant (`relevant`)
  while all tools of the first round are as before. It is as before if both are. One that certainly few runs call
  explains nothing, and is left out.
- **The generator** moved if its `focus` certainly moved (of an agent: fell), or if adherence certainly fell while all
  steps of retrieval are as before: worse documents may lower adherence, too. It is as before if both are.

All else is open: a single retriever, retrievers of which nothing is shared, several rerankers, two retrievers whose
order moved before one reranker. **The steps that moved explain the change alone** only if every other step is as
before; the residual is then within the margins. Otherwise the open steps are stated as possible.

**Certain** are intervals that hold at every look, all together: each difference of two means has a half-width of
`joint_boundary.py`, at a share of the error that is equal for each number. "As before" is certain in the same way: the
whole interval lies within the margin. A number that a fault of another step may move a little has moved only if its
whole interval lies beyond the margin. So a step is named wrongly with at most the stated probability, if the traffic
before and since the alarm differs by the faults alone.

Source: boundaries as in `joint_boundary.py`; names by simulation, of one fault and of two at once or one after the
other: benchmarks/measured/moved_steps.md (`make movedsteps`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Final, Literal, NamedTuple

import numpy as np

from ..intervals.intervals import Interval
from ..means.segment_moments import SegmentMoments
from ..tables import scipy_functions
from .mix_shift import DesignEffects

ComponentKind = Literal["retriever", "reranker", "tool", "generator"]
"""As that of the schema, on which statistics do not depend."""

StepQuantity = Literal[
    "relevance", "used_recall", "agreement", "order", "yield", "ranking", "focus", "adherence", "failed", "relevant",
    "used", "called", "asked",
]  # fmt: skip
"""As the last part of the names of the metrics of a step or a tool; `adherence` is that of the answer, `called` the
share of the runs with labels that begin with a call of the tool, and `asked` the share of all runs with one."""

_COUNTED: Final = frozenset[StepQuantity](["called", "asked"])
"""Shares of the runs, which are no metrics with scores."""

SAME: Final = 0.25
"""Largest change of a number that counts as none, in standard deviations of an interaction's number before."""

SAME_OF_OWN: Final = 0.35
"""The same of a number of which other steps' faults move a little: at most 0.16 in
benchmarks/measured/moved_steps.md, where the mildest fault of the step itself moves it by 0.36."""

_OF_OWN: Final = frozenset[str](["order", "ranking", "focus"])

_USED: Final[dict[ComponentKind, frozenset[str]]] = {
    "retriever": frozenset(["agreement", "used_recall", "order", "yield"]),
    "reranker": frozenset(["ranking"]),
    "tool": frozenset(["yield", "failed", "relevant", "used", "called", "asked"]),
    "generator": frozenset(["focus", "adherence"]),
}
"""Numbers that say something where there is a reranker."""

_USED_ALONE: Final = {**_USED, "retriever": frozenset(["relevance"])}
"""Numbers that say something without one."""

SHARP: Final = 0.75
"""Least `ranking` before of labels that show whether a retriever is as before beside another one that moved. Labels
that hardly agree with the reranker on which documents are relevant do not."""

LEAST_MARGIN: Final = 0.02
"""Change that counts as none of a number that hardly varied before."""

RARE: Final = 0.02
"""Share of the runs: a tool that is certainly called in fewer cannot explain a change."""

LEAST_N: Final = 50
"""Values of a number before and since, without which it is not compared."""


class StepNumber(NamedTuple):
    """One number of one step: its values before a change, and since; moments of shape (1,)."""

    step: str
    kind: ComponentKind
    quantity: StepQuantity
    before: SegmentMoments
    since: SegmentMoments


@dataclass(frozen=True, slots=True)
class NumberChange(Interval[float, float]):
    """The change since - before of one number of one step."""

    step: str
    kind: ComponentKind
    quantity: StepQuantity
    before: float
    """Mean before."""
    since: float
    """Mean since."""
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
    def fell_far(self) -> bool:
        """Whether it certainly fell by more than the margin."""
        return self.upper < -self.margin

    @property
    def fell_little(self) -> bool:
        """Whether it certainly fell by no more than what another step's fault may move."""
        return self.lower > -self.margin * SAME_OF_OWN / SAME

    def fell_more_than(self, other: "NumberChange") -> bool:
        """Return whether it certainly fell by more than another number did, each in its own margins."""
        halves = [(change.upper - change.lower) / 2 / change.margin for change in (self, other)]
        return self.estimate / self.margin - other.estimate / other.margin + hypot(*halves) < 0

    @property
    def rose_far(self) -> bool:
        """Whether it certainly rose by more than the margin."""
        return self.lower > self.margin

    @property
    def moved_far(self) -> bool:
        """Whether it certainly fell or rose by more than the margin."""
        return self.fell_far or self.rose_far

    @property
    def is_same(self) -> bool:
        """Whether it certainly did not move by more than the margin."""
        return -self.margin < self.lower and self.upper < self.margin

    @property
    def did_not_fall(self) -> bool:
        """Whether it certainly did not fall by more than the margin."""
        return -self.margin < self.lower


class Component(NamedTuple):
    """A step that may move by itself."""

    step: str
    kind: ComponentKind


class MovedSteps(NamedTuple):
    """What is certain about each step, and the changes from which that follows."""

    moved: tuple[Component, ...]
    """Steps that certainly moved by themselves."""
    possible: tuple[Component, ...]
    """Steps that may have moved."""
    unmoved: tuple[Component, ...]
    """Steps that certainly did not move by themselves."""
    changes: tuple[NumberChange, ...]
    """Of all numbers that were compared."""
    evidence: tuple[NumberChange, ...]
    """Changes that name the steps, the first of each step first; without one, those that certainly moved."""
    called: tuple[NumberChange, ...] = ()
    """Tools with which certainly more or fewer runs begin than before, beyond the margin; the largest change first."""


_Numbers = dict[StepQuantity, NumberChange]
"""Changes of one step by quantity."""

_Evidence = tuple[NumberChange, ...]
"""Changes that name a step; empty if it is not named."""


class _StepFinding(NamedTuple):
    """What is certain about one step."""

    evidence: _Evidence = ()
    """Changes that show that it moved, its own first; empty if that is not certain."""
    is_same: bool = False


def moved_steps(numbers: Sequence[StepNumber], *, confidence: float, looks: int, effects: DesignEffects) -> MovedSteps:
    """Return what is certain about each step of a pipeline.

    Args:
        numbers: of every step, each at most once.
        confidence: of all intervals together, at all looks, in (0, 1).
        looks: most looks that are taken, each at a number of interactions that was set before.
    """
    used = _USED if any(number.kind == "reranker" for number in numbers) else _USED_ALONE
    known = [
        number
        for number in numbers
        if number.quantity in used[number.kind] and min(number.before.n[0], number.since.n[0]) >= LEAST_N
    ]
    yields = sum(number.kind == "tool" and number.quantity == "yield" for number in known)
    alpha = (1 - confidence) / max((len(known) + 3 * yields * (yields - 1) // 2) * looks, 1)
    changes = _changes(known, alpha, effects)
    rare = _rare_tools(numbers, alpha)
    steps: dict[Component, _Numbers] = {
        step: {} for number in numbers if (step := Component(number.step, number.kind)) not in rare
    }
    for change in changes:
        if (step := Component(change.step, change.kind)) in steps:
            steps[step][change.quantity] = change
    retrievers, rerankers, tools, generators = (
        {step: findings for step, findings in steps.items() if step.kind == kind}
        for kind in ("retriever", "reranker", "tool", "generator")
    )
    findings = _retrieval(retrievers, rerankers)
    begun = _share_of_runs(numbers)
    findings |= _tools(tools, {number.step for number in numbers if number.quantity in ("yield", "relevant")}, begun)
    findings |= {
        step: _generator(own, list(findings.values()), with_tools=bool(tools)) for step, own in generators.items()
    }
    moved = tuple(step for step, known in findings.items() if known.evidence)
    unmoved = tuple(step for step, known in findings.items() if known.is_same and not known.evidence)
    rest = tuple(step for step in findings if step not in (*moved, *unmoved))
    first = [findings[step].evidence[0] for step in moved]
    others = [change for step in moved for change in findings[step].evidence[1:]]
    certain = [change for change in changes if change.moved and change.quantity not in _COUNTED]
    called = sorted(
        (change for change in changes if change.quantity == begun == "called" and change.moved_far),
        key=lambda change: -abs(change.estimate),
    )
    evidence = tuple(dict.fromkeys([*first, *others] if moved else certain))
    return MovedSteps(moved, rest, unmoved, changes, evidence, tuple(called))


def _retrieval(
    retrievers: dict[Component, _Numbers], rerankers: dict[Component, _Numbers]
) -> dict[Component, _StepFinding]:
    if not rerankers:
        return _without_reranker(retrievers)
    pools = [numbers.get("agreement") for numbers in retrievers.values()]
    known = [change for change in pools if change is not None]
    same_pools = len(retrievers) > 1 and len(known) == len(pools) and all(change.is_same for change in known)
    moved_pools = tuple(change for change in known if change.moved)
    reranker, is_sharp = _StepFinding(), False
    if len(rerankers) == 1:
        (own,) = rerankers.values()
        reranker = _reranker(own, retrievers, same_pools=same_pools)
        is_sharp = "ranking" in own and own["ranking"].before >= SHARP
    findings: dict[Component, _StepFinding] = {}
    for step, numbers in retrievers.items():
        used, order, kept = numbers.get("used_recall"), numbers.get("order"), numbers.get("yield")
        evidence: _Evidence = ()
        if reranker.is_same and moved_pools and used is not None and used.fell:
            evidence = (used, *moved_pools)
        as_before = order is not None and order.is_same and kept is not None and kept.did_not_fall
        findings[step] = _StepFinding(evidence, same_pools or (reranker.is_same and is_sharp and as_before))
    return findings | dict.fromkeys(rerankers, reranker)


def _reranker(own: _Numbers, retrievers: dict[Component, _Numbers], *, same_pools: bool) -> _StepFinding:
    ranking = own.get("ranking")
    known = [numbers["order"] for numbers in retrievers.values() if "order" in numbers]
    far = [order for order in known if order.moved_far]
    if ranking is None:
        return _StepFinding()
    if same_pools and ranking.fell_far and far:
        return _StepFinding((ranking, *far))
    other_order = same_pools and any(order.moved for order in known)
    return _StepFinding(is_same=ranking.is_same and any(order.is_same for order in known) and not other_order)


def _without_reranker(retrievers: dict[Component, _Numbers]) -> dict[Component, _StepFinding]:
    relevance = {step: numbers.get("relevance") for step, numbers in retrievers.items()}
    same = [change for change in relevance.values() if change is not None and change.is_same]
    return {
        step: _StepFinding()
        if change is None
        else _StepFinding((change,) if change.fell_far and same else (), change.is_same)
        for step, change in relevance.items()
    }


def _tools(
    tools: dict[Component, _Numbers], searching: Collection[str], begun: StepQuantity
) -> dict[Component, _StepFinding]:
    first = {tool: own["yield"] for tool, own in tools.items() if "yield" in own}
    failing = {tool: (own["failed"],) for tool, own in tools.items() if "failed" in own and own["failed"].rose_far}
    working = {tool: brought for tool, brought in first.items() if tool not in failing}
    same = {
        tool
        for tool, brought in working.items()
        if brought.is_same and not ("used" in tools[tool] and tools[tool]["used"].fell_far)
    }
    comparable = _with_the_same_questions(tools, begun)
    findings: dict[Component, _StepFinding] = {}
    for tool, own in tools.items():
        evidence: _Evidence = failing.get(tool, ())
        is_same = tool in same
        if tool in first:
            others = [brought for other, brought in working.items() if other != tool and brought.fell_little]
            # The calls of later rounds depend on what the other tools of the first round brought, too.
            of_all = [own["relevant"]] if "relevant" in own and len(others) == len(first) - 1 else []
            fell = [
                change
                for change in (first[tool], *of_all)
                if change.fell and any(change.fell_more_than(other) for other in others)
            ]
            if tool in comparable:
                evidence = (*fell[:1], *evidence)
        elif tool.step in searching:
            relevant = own.get("relevant")
            begins_same = 0 < len(same) == len(first)
            if relevant is not None and relevant.fell_far and begins_same:
                evidence = (relevant, *evidence)
            is_same = relevant is not None and relevant.is_same and begins_same and "failed" in own
        else:
            is_same = "failed" in own and own["failed"].is_same
        findings[tool] = _StepFinding(evidence, is_same and begun == "called")
    if not any(step.evidence for step in findings.values()):
        findings |= _unused_tools(tools, first, comparable)
    return findings


def _unused_tools(
    tools: dict[Component, _Numbers], first: Collection[Component], comparable: Collection[Component]
) -> dict[Component, _StepFinding]:
    """Return the tools whose results count as relevant and are used less, while those of another tool are used."""
    used = {tool: tools[tool]["used"] for tool in first if "used" in tools[tool]}
    moved: dict[Component, _StepFinding] = {}
    for tool, use in used.items():
        others = [other for name, other in used.items() if name != tool and other.fell_little]
        if tool in comparable and use.fell_far and any(use.fell_more_than(other) for other in others):
            moved[tool] = _StepFinding((use,))
    return moved


def _with_the_same_questions(tools: dict[Component, _Numbers], begun: StepQuantity) -> set[Component]:
    """Return the tools that as many runs call as before, unless more or fewer begin with some other: topics changed."""
    shares = {tool: own[begun] for tool, own in tools.items() if begun in own}
    if begun == "called" and any(share.moved and not share.is_same for share in shares.values()):
        return set()
    return {tool for tool, share in shares.items() if share.is_same}


def _share_of_runs(numbers: Sequence[StepNumber]) -> StepQuantity:
    """Return `called`, or `asked` if another part of the runs has labels than before, which are not like all others."""
    n = {number.quantity: (number.before.n[0], number.since.n[0]) for number in numbers if number.quantity in _COUNTED}
    if len(n) < len(_COUNTED):
        return "called"
    before, since = (labeled / max(runs, 1) for labeled, runs in zip(n["called"], n["asked"], strict=True))
    return "called" if abs(since - before) <= LEAST_MARGIN else "asked"


def _rare_tools(numbers: Sequence[StepNumber], alpha: float) -> set[Component]:
    """Return the tools that certainly few of the runs since call: as Poisson counts, with an upper end."""
    z = float(scipy_functions.ndtri(1 - alpha / 2))
    runs = max((float(number.since.n[0]) for number in numbers if number.quantity == "called"), default=0.0)
    counts = {
        Component(number.step, number.kind): number.since.n[0] for number in numbers if number.quantity == "failed"
    }
    return {tool for tool, n in counts.items() if n + z * np.sqrt(n) + z**2 < RARE * runs}


def _generator(own: _Numbers, before: Sequence[_StepFinding], *, with_tools: bool) -> _StepFinding:
    focus, adherence = own.get("focus"), own.get("adherence")
    # Results that have no word of the question, as those in another language, raise the focus; answers of runs that
    # give up, because a tool failed them, lower it.
    of_tools = any(step.evidence for step in before)
    has_moved = focus is not None and ((focus.fell_far and not of_tools) if with_tools else focus.moved_far)
    evidence: _Evidence = (focus,) if focus is not None and has_moved else ()
    if adherence is not None and adherence.fell_far and all(step.is_same for step in before):
        evidence += (adherence,)
    return _StepFinding(evidence, focus is not None and focus.is_same and (adherence is None or adherence.is_same))


def _changes(numbers: Sequence[StepNumber], alpha: float, effects: DesignEffects) -> tuple[NumberChange, ...]:
    if not numbers:
        return ()
    both = [_stacked([getattr(number, name) for number in numbers]) for name in ("before", "since")]
    z = float(scipy_functions.ndtri(1 - alpha / 2))
    n = [moments.n / effects.scores for moments in both]
    squared = sum(moments.m2 / moments.n / size + (z / (2 * size)) ** 2 for moments, size in zip(both, n, strict=True))
    width = z * np.sqrt(squared) + (z**2 - 1) / 6 / np.minimum(*n)
    change = both[1].mean - both[0].mean
    spread = np.sqrt(both[0].m2 / both[0].n)
    return tuple(
        NumberChange(
            float(middle),
            max(float(middle - half), -1.0),
            min(float(middle + half), 1.0),
            number.step,
            number.kind,
            number.quantity,
            float(number.before.mean[0]),
            float(number.since.mean[0]),
            max((SAME_OF_OWN if number.quantity in _OF_OWN else SAME) * float(deviation), LEAST_MARGIN),
        )
        for number, middle, half, deviation in zip(numbers, change, width, spread, strict=True)
    )


def _stacked(moments: Sequence[SegmentMoments]) -> SegmentMoments:
    return SegmentMoments(*(np.concatenate([getattr(part, name) for part in moments]) for name in ("n", "mean", "m2")))
