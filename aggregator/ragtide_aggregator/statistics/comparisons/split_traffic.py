"""Two pipelines among which a coin divides the traffic: the difference of their scores, and whether the coin is fair.

`AssignmentTable` has the interval. It holds if the coin has the stated probability for every item, whatever came
before. Three things break that in practice, and each is seen in the data:

- **Another share.** The part of the items of pipeline a then moves away from p. If a score is absent more often in one
  pipeline, the part among the scored items moves as well.
- **A coin for each session.** The answers of a session then stay with a pipeline. Given the pipeline of the answer
  before, the next one is in the same pipeline with probability p or 1 - p if the coin is thrown anew, else always.
- **A covariate that depends on the pipeline.** Its mean then differs between the pipelines.

Items should count in the order in which the coin is thrown. If those of one pipeline come later by a delay, an item's
place may tell of its pipeline. While items come at a steady rate, at random moments, it does not: each pipeline's
items are then a Poisson process, a delay does not change that, and the next item is of pipeline a with probability p,
whatever came before. If the rate changes by a part r within the delay, p is off by p (1 - p) r.

Each check is a confidence sequence at the level CERTAIN, of a mean that is known if the coin is as stated. A fair coin
fails a check at any look with probability 1 - CERTAIN at most.

**Sessions as items.** If a coin is thrown for each session, sessions are the items, and the score of one is the mean of
its first scores. Sessions count in the order of their first scores, each with all before it: the coin is thrown at the
first, so it knows nothing of the sessions before. A session is not left out because of its scores. A session whose end
is not known yet, and all that began later, do not count yet.

Sources: as `assignment.py`; Fabijan et al. (2019), "Diagnosing sample ratio mismatch in online controlled experiments",
Proceedings of the 25th ACM SIGKDD conference: 2156-2164, for the first check.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..intervals.intervals import Interval
from ..intervals.running import running_interval
from ..tables.batches import Floats
from .assignment import AssignmentTable

CERTAIN: Final = 0.999
"""Confidence level of the checks."""

BY_ITSELF: Final = 0
"""Code of an item that belongs to no session."""


def split_difference(
    to_a: NDArray[np.bool_], values: Floats, features: Floats, *, share: float, confidence: float
) -> Interval[Floats, Floats]:
    """Return the difference of the mean scores of a and b, with one element; valid at every look.

    Args:
        to_a: whether each item went to pipeline a, in the order of the items, shape (items,).
        values: scores in [0, 1], same shape.
        features: known before the score, in [0, 1], shape (items, features).
        share: probability with which an item goes to a.
        confidence: level in (0, 1).

    Raises: ValueError for an argument out of its range.
    """
    check_share(share)
    table = AssignmentTable(features.shape[1], least_share=min(share, 1 - share))
    rows = np.full(values.size, table.add_row())
    table.update(rows, to_a, np.full(values.size, share), values, features)
    return table.read(np.zeros(1, dtype=np.intp), confidence=confidence)


def check_share(share: float) -> None:
    """Raise ValueError unless a share is a probability that leaves traffic for both."""
    if not 0 < share < 1:
        raise ValueError(f"share is {share}: give the probability of the first pipeline, such as 0.5")


def has_share(to_a: NDArray[np.bool_], share: float, *, checks: int = 1) -> bool:
    """Return whether items may have gone to pipeline a with this probability; of `checks` alike all hold together."""
    return _may_be_zero(to_a.astype(np.float64) - share, checks)


def is_anew(to_a: NDArray[np.bool_], sessions: NDArray[np.int64], share: float) -> bool:
    """Return whether the coin may have been thrown anew for each answer of a session.

    Args:
        to_a: whether each item went to pipeline a, in the order of the items.
        sessions: code of each item's session, `BY_ITSELF` for none.
        share: probability with which an item goes to a.
    """
    inside = np.flatnonzero(sessions != BY_ITSELF)
    inside = inside[np.argsort(sessions[inside], kind="stable")]
    follows = sessions[inside[1:]] == sessions[inside[:-1]]
    before, after = inside[:-1][follows], inside[1:][follows]
    order = np.argsort(after)
    before, after = to_a[before[order]], to_a[after[order]]
    return _may_be_zero((before == after) - np.where(before, share, 1 - share))


def is_balanced(to_a: NDArray[np.bool_], features: Floats, share: float) -> bool:
    """Return whether the means of features may be the same in both pipelines; features have shape (items, features)."""
    nothing = np.zeros((to_a.size, 0))
    level = 1 - (1 - CERTAIN) / max(features.shape[1], 1)
    differences = [split_difference(to_a, feature, nothing, share=share, confidence=level) for feature in features.T]
    return all(interval.lower[0] <= 0 <= interval.upper[0] for interval in differences)


def _may_be_zero(off: Floats, checks: int = 1) -> bool:
    if not off.size:
        return True
    level = 1 - (1 - CERTAIN) / checks
    # As values in [0, 1], each predicted by the mean that it is to have.
    lower, upper = running_interval((1 + off.mean()) / 2, off.size, float(np.sum(off**2)) / 4, confidence=level)
    return bool(lower <= 0.5 <= upper)


def sessions_as_items(
    sessions: NDArray[np.int64],
    times_ms: NDArray[np.int64],
    *,
    size: int,
    quiet_ms: int,
    ticks_ms: NDArray[np.int64] | None = None,
) -> list[NDArray[np.intp]]:
    """Return the places of the scores of each session that counts, in the order of the sessions.

    A session ends with `size` scores, or before a pause of more than `quiet_ms`; later scores are left out.

    Args:
        sessions: code of each score's session, `BY_ITSELF` for a score that is an item by itself; in order.
        times_ms: time of each.
        size: most scores of a session.
        quiet_ms: pause after which a session has ended.
        ticks_ms: for each score the time of the last tick of its pipeline, which may be after the last score.
    """
    members: list[list[int]] = []
    ended: list[bool] = []
    number_of: dict[int, int] = {}
    for place, (session, time) in enumerate(zip(sessions.tolist(), times_ms.tolist(), strict=True)):
        number = number_of.get(session)
        if session == BY_ITSELF or number is None:
            number_of[session] = len(members)
            members.append([place])
            ended.append(session == BY_ITSELF or size == 1)
        elif not ended[number]:
            if time - times_ms[members[number][-1]] > quiet_ms:
                ended[number] = True
            else:
                members[number].append(place)
                ended[number] = len(members[number]) >= size
    newest = np.full(times_ms.size, times_ms.max(initial=0))
    if ticks_ms is not None:
        newest = np.maximum(newest, ticks_ms)
    counted: list[NDArray[np.intp]] = []
    for places, over in zip(members, ended, strict=True):
        if not over and newest[places[-1]] - times_ms[places[-1]] <= quiet_ms:
            break
        counted.append(np.array(places, dtype=np.intp))
    return counted


def means_of(values: Floats, items: Sequence[NDArray[np.intp]]) -> Floats:
    """Return the mean of the values at the places of each item, not above 1."""
    return np.array([min(float(values[places].mean()), 1.0) for places in items])
