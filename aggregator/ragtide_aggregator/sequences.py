"""Confidence sequences over a list of values: an interval after every one of them."""

import numpy as np
from numpy.typing import ArrayLike

from .running import FIRST_GUESS, V_OPT, Floats, running_interval

SEQUENCES = ("running",)
"""Names of the sequences."""


def confidence_sequence(
    name: str,
    values: ArrayLike,
    *,
    confidence: float = 0.95,
    population: int | None = None,
    value_range: tuple[float, float] = (0.0, 1.0),
    v_opt: float = V_OPT,
) -> Floats:
    """Return the lower and upper end after each value, shape (n, 2), in the values' unit.

    `running` covers the average of what the true mean has been, at every n at once with probability `confidence`.

    Args:
        name: `running`.
        values: the values in the order in which they came, shape (n,).
        confidence: level in (0, 1).
        population: number of all values, if it is finite; `running` is valid without it and makes no use of it.
        value_range: lowest and highest possible value.
        v_opt: intrinsic time at which the sequence is tightest.

    Assumes: every value lies in the value range; nothing about independence.
    Raises: ValueError for an unknown name, a value that is not finite or outside the range, or a level out of (0, 1).
    Source: Howard, Ramdas, McAuliffe, Sekhon (2021), Annals of Statistics 49(2), Theorem 4.

    >>> confidence_sequence("running", [1.0] * 200)[-1].round(2).tolist()
    [0.97, 1.0]
    """
    if name not in SEQUENCES:
        raise ValueError(f"sequence {name!r} is unknown: use one of {', '.join(SEQUENCES)}")
    lowest, highest = value_range
    if not (np.isfinite(lowest) and np.isfinite(highest) and lowest < highest):
        raise ValueError(f"value_range is {lowest} to {highest}: give a finite lowest and a higher highest value")
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"values has {array.ndim} dimensions: give one list of numbers")
    wrong = np.flatnonzero(~((array >= lowest) & (array <= highest)))
    if wrong.size:
        raise ValueError(
            f"values[{wrong[0]}] is {array[wrong[0]]}, outside {lowest} to {highest}: "
            "leave unknown values out and give the right value_range"
        )
    if population is not None and population < array.size:
        raise ValueError(f"population is {population} and there are {array.size} values: no more than all can be seen")
    if array.size == 0:
        return np.empty((0, 2))
    scaled = (array - lowest) / (highest - lowest)
    n = np.arange(1, array.size + 1)
    mean = np.cumsum(scaled) / n
    v = np.cumsum((scaled - np.concatenate([[FIRST_GUESS], mean[:-1]])) ** 2)
    ends = np.stack(running_interval(mean, n, v, confidence=confidence, v_opt=v_opt), axis=1)
    return np.asarray(lowest + (highest - lowest) * ends)
