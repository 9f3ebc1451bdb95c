"""The one difference of two configs, with the one interval that is shown for it everywhere. No I/O.

Where the race decided between the two, the interval is that of its decision. Where both raced, it is the race's as it
stands. Only where the race says nothing (it is disabled, or the two have no item of it in common) is it a betting
sequence on the paired differences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragtide_aggregator.statistics.comparing import Difference
from ragtide_schemas.experiments import Evidence, Progress

from .decisions import Judging
from .projecting import paired
from .results import Book

Source = Literal["decision", "race", "pairs"]


@dataclass(frozen=True, slots=True)
class Gap:
    """The mean of one config minus that of another."""

    n: int
    """Items it is over."""
    difference: Difference
    source: Source
    """`decision` of the race, which stopped one because of the other; `race`; or `pairs`, not the race's."""


def decided(progress: Progress, name: str) -> Evidence | None:
    """Return the evidence with which the race stopped a config; None if it did not."""
    standing = progress.configs[name]
    return standing.evidence if standing.status == "stopped" else None


def gaps(
    progress: Progress,
    book: Book,
    judging: Judging | None,
    first: str,
    others: Sequence[str],
    *,
    confidence: float | None = None,
) -> list[Gap | None]:
    """Return the mean of one config minus that of each of others.

    Args:
        progress: where the experiment stands.
        book: what was scored.
        judging: its race as it stands; None takes what the race decided, and no more of it.
        first: a config.
        others: other configs, further down on the leaderboard.
        confidence: level of each interval that is not the race's; that of the plan's intervals unless given.
    """
    found = [_of_race(progress, judging, first, second) for second in others]
    rest = [second for second, gap in zip(others, found, strict=True) if gap is None]
    pairs = iter(paired(progress, book, first, rest, confidence=confidence))
    result: list[Gap | None] = []
    for gap in found:
        if gap is not None:
            result.append(gap)
            continue
        pair = next(pairs)
        result.append(None if pair is None else Gap(*pair, "pairs"))
    return result


def _of_race(progress: Progress, judging: Judging | None, first: str, second: str) -> Gap | None:
    for loser, winner in ((second, first), (first, second)):
        evidence = decided(progress, loser)
        if evidence is not None and evidence.by == winner:
            return Gap(evidence.n, difference_of(evidence, negated=loser == first), "decision")
    found = None if judging is None else judging.difference(first, second)
    return None if found is None else Gap(*found, "race")


def difference_of(evidence: Evidence, *, negated: bool = False) -> Difference:
    """Return the difference that a decision of the race was made on: the winner's mean minus the loser's."""
    if negated:
        return Difference(-evidence.difference, -evidence.upper, -evidence.lower)
    return Difference(evidence.difference, evidence.lower, evidence.upper)
