"""Confidence sequences over a list of values: an interval after every one of them."""

from collections.abc import Callable
from math import log
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from .running import FIRST_GUESS, V_OPT, Floats, running_interval


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

    Both hold at every n at once with probability `confidence`. Their ends are not intersected over time.

    - `running` covers the average of what the true mean has been.
    - `empirical_bernstein` covers a mean that does not move.

    Args:
        name: `running` or `empirical_bernstein`.
        values: the values in the order in which they came, shape (n,).
        confidence: level in (0, 1).
        population: number of all values, if it is finite; both are valid without it and make no use of it.
        value_range: lowest and highest possible value.
        v_opt: intrinsic time at which `running` is tightest; the other makes no use of it.

    Assumes: every value lies in the value range; nothing about independence. For `empirical_bernstein` also that each
        value's mean given the past is the same.
    Raises: ValueError for an unknown name, a value that is not finite or outside the range, or a level out of (0, 1).
    Source: Howard, Ramdas, McAuliffe, Sekhon (2021), Annals of Statistics 49(2), Theorem 4; Waudby-Smith, Ramdas
        (2024), "Estimating means of bounded random variables by betting", JRSS B 86(1), Theorem 2.

    >>> confidence_sequence("running", [1.0] * 200)[-1].round(2).tolist()
    [0.97, 1.0]
    """
    if name not in _SEQUENCES:
        raise ValueError(f"sequence {name!r} is unknown: use one of {', '.join(_SEQUENCES)}")
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
    if population is not None and not population >= array.size:
        raise ValueError(f"population is {population} and there are {array.size} values: no more than all can be seen")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: give a level between 0 and 1, such as 0.95")
    if array.size == 0:
        return np.empty((0, 2))
    ends = _SEQUENCES[name]((array - lowest) / (highest - lowest), confidence, v_opt)
    return np.asarray(lowest + (highest - lowest) * ends)


def _running(x: Floats, confidence: float, v_opt: float) -> Floats:
    n = np.arange(1, x.size + 1)
    mean = np.cumsum(x) / n
    v = np.cumsum((x - np.concatenate([[FIRST_GUESS], mean[:-1]])) ** 2)
    return np.asarray(np.stack(running_interval(mean, n, v, confidence=confidence, v_opt=v_opt), axis=1))


def _empirical_bernstein(x: Floats, confidence: float, v_opt: float) -> Floats:
    del v_opt  # the bets tune themselves
    log_level = log(2 / (1 - confidence))
    return np.clip(np.stack([_bernstein_below(x, log_level), 1 - _bernstein_below(1 - x, log_level)], axis=1), 0.0, 1.0)


def _bernstein_below(x: Floats, log_level: float) -> Floats:
    """Return the lower ends of the predictable plug-in sequence; the upper ones are those of 1 - x, mirrored.

    A bet is set by the values before it, so their order matters. Deviations are from the plain mean of the values
    before, 0 before the first: the theorem allows any prediction made in advance, and the reference values take this.
    """
    t = np.arange(1, x.size + 1)
    # The spread that sets the bets has one imagined value of 1/2 with variance 1/4 before the first.
    variance = (0.25 + np.cumsum((x - (0.5 + np.cumsum(x)) / (t + 1)) ** 2)) / (t + 1)
    variance_before = np.concatenate([[0.25], variance[:-1]])
    mean_before = np.concatenate([[0.0], (np.cumsum(x) / t)[:-1]])
    bet = np.minimum(np.sqrt(2 * log_level / (variance_before * t * np.log1p(t))), 0.5)
    cost = np.cumsum((x - mean_before) ** 2 * (-np.log1p(-bet) - bet))
    return np.asarray((np.cumsum(bet * x) - log_level - cost) / np.cumsum(bet))


_SEQUENCES: Final[dict[str, Callable[[Floats, float, float], Floats]]] = {
    "running": _running,
    "empirical_bernstein": _empirical_bernstein,
}
