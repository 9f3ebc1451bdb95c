"""The difference of two configs, with one interval for leaderboard and report. No I/O.

If the race stopped one config because of the other, the interval is that of the decision. If both raced, it is the
race's interval as of now. Otherwise (no race, or no common item in the race) it is a betting sequence on the paired
differences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragtide_aggregator.statistics.comparisons.comparing import Difference
from ragtide_schemas.experiments import Evidence

from .projections import paired_differences
from .state import ExperimentState

Source = Literal["decision", "race", "pairs"]


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """The mean of one config minus that of another."""

    n: int
    """Items that both have."""
    difference: Difference
    source: Source
    """Origin of the interval: a `decision` of the race, the `race`, or `pairs` without the race."""


def decided(state: ExperimentState, name: str) -> Evidence | None:
    """Return the evidence with which the race stopped a config; None for other configs."""
    status = state.configs[name]
    return status.evidence if status.status == "stopped" else None


def differences(
    state: ExperimentState, first: str, others: Sequence[str], *, raced: bool = True, confidence: float | None = None
) -> list[ConfigDifference | None]:
    """Return the mean of one config minus the mean of each other; None without a common item.

    Args:
        state: of the experiment.
        first: a config.
        others: other configs, further down the leaderboard.
        raced: whether to use the race's intervals as of now, each of which is slow to compute.
        confidence: level of each interval outside of the race; the level of the plan unless given.
    """
    found = [_of_race(state, first, second, raced=raced) for second in others]
    rest = [second for second, one in zip(others, found, strict=True) if one is None]
    pairs = iter(paired_differences(state, first, rest, confidence=confidence))
    result: list[ConfigDifference | None] = []
    for one in found:
        pair = next(pairs) if one is None else None
        result.append(one if pair is None else ConfigDifference(*pair, "pairs"))
    return result


def _of_race(state: ExperimentState, first: str, second: str, *, raced: bool) -> ConfigDifference | None:
    for loser, winner in ((second, first), (first, second)):
        evidence = decided(state, loser)
        if evidence is not None and evidence.by == winner:
            return ConfigDifference(evidence.n, difference_of(evidence, negated=loser == first), "decision")
    found = state.race.difference(first, second) if raced and state.race is not None else None
    return None if found is None else ConfigDifference(*found, "race")


def difference_of(evidence: Evidence, *, negated: bool = False) -> Difference:
    """Return the difference on which the race decided: the leader's mean minus the mean of the stopped config."""
    if negated:
        return Difference(-evidence.difference, -evidence.upper, -evidence.lower)
    return Difference(evidence.difference, evidence.lower, evidence.upper)
