"""Intervals for paired differences, many at once. No I/O."""

from collections.abc import Sequence

import numpy as np

from ragtide_aggregator.statistics.comparing import Difference
from ragtide_aggregator.statistics.strategies import RunningIntervals


def mean_differences(
    gaps: Sequence[Sequence[float]],
    value_range: tuple[float, float],
    *,
    sizes: Sequence[int | None],
    confidence: float,
) -> list[Difference]:
    """Return the mean of each list of differences with its interval: a betting sequence, valid at every look.

    Args:
        gaps: lists of differences, each in the order in which they came, none of them empty.
        value_range: lowest and highest possible value of the metric.
        sizes: for each list, of how many differences it is a part; None if that is not known.
        confidence: level of each.
    """
    if not gaps:
        return []
    lowest, highest = value_range
    width = highest - lowest
    table = RunningIntervals(
        "betting",
        keys=len(gaps),
        confidence=confidence,
        value_range=(-width, width),
        population=np.array(sizes, dtype=object),
    )
    keys = np.repeat(np.arange(len(gaps)), [len(one) for one in gaps])
    table.update(keys, np.clip(np.concatenate([np.asarray(one, dtype=np.float64) for one in gaps]), -width, width))
    found = table.intervals()
    ends = zip(found.estimate.tolist(), found.lower.tolist(), found.upper.tolist(), strict=True)
    return [
        # All were seen: nothing is left to be uncertain about.
        Difference(estimate, estimate, estimate) if len(one) == size else Difference(estimate, lower, upper)
        for one, size, (estimate, lower, upper) in zip(gaps, sizes, ends, strict=True)
    ]
