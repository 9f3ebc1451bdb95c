"""Confidence sequences over a list of values: an interval after each value."""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..intervals.asymptotic import asymptotic_interval
from ..intervals.bernstein import bernstein_path
from ..intervals.betting import BettingTable
from ..intervals.running import FIRST_GUESS, V_OPT, running_interval
from ..tables.batches import Floats
from ..tables.tables import check_confidence, check_range, scaled
from .clustered_interval import clustered_interval
from .clusters import ClusterTable, closings

SEQUENCES: Final = ("running", "empirical_bernstein", "betting", "asymptotic")
"""Names of the confidence sequences."""


def confidence_sequence(
    name: str,
    values: ArrayLike,
    *,
    confidence: float = 0.95,
    population: int | None = None,
    value_range: tuple[float, float] = (0.0, 1.0),
    v_opt: float = V_OPT,
    clusters: Sequence[Hashable] | ArrayLike | None = None,
) -> Floats:
    """Return the lower and upper end after each value, shape (n, 2), in the values' unit.

    All intervals together hold with probability `confidence`. They are not intersected over time.

    - `running` covers the average of the true mean so far, which may change.
    - `empirical_bernstein` and `betting` cover a constant mean; `betting` is tighter, and slower.
    - `asymptotic` covers a constant mean once there are enough values; before, it is the whole range.

    Args:
        name: `running`, `empirical_bernstein`, `betting` or `asymptotic`.
        values: values in their order, shape (n,).
        confidence: level in (0, 1).
        population: number of all values, if they are drawn without replacement from a finite set. Only `betting` uses
            it, and closes when all values are seen.
        value_range: lowest and highest possible value.
        v_opt: intrinsic time at which `running` is tightest without clusters; only `running` uses it.
        clusters: for `running`, the session or batch of each value, same length. Values inside a cluster may depend on
            each other; they count once the last value of their cluster has come.

    Assumes: every value is in the value range. `running` assumes no more for single values, and for clusters that they
        are independent of each other. It covers the average of each value's mean given the past, which a session
        changes. All others also assume that the mean of each value given the past is constant, or that values are
        drawn without replacement.
    Raises: ValueError for an unknown name, a value that is not finite or outside the range, or a level out of (0, 1).
    Source: Howard, Ramdas, McAuliffe, Sekhon (2021), Annals of Statistics 49(2), Theorem 4; Waudby-Smith, Ramdas
        (2024), "Estimating means of bounded random variables by betting", JRSS B 86(1), Theorems 2 and 3; Waudby-Smith,
        Arbour, Sinha, Kennedy, Ramdas (2024), Annals of Statistics 52(6), Theorem 2.2.

    >>> confidence_sequence("running", [1.0] * 200)[-1].round(2).tolist()
    [0.97, 1.0]
    """
    if name not in SEQUENCES:
        raise ValueError(f"sequence {name!r} is unknown: use one of {', '.join(SEQUENCES)}")
    if clusters is not None and name != "running":
        raise ValueError(f"clusters belong to the sequence running: {name} cannot make use of them")
    check_range(value_range)
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"values has {array.ndim} dimensions: give one list of numbers")
    x = scaled(array, value_range)
    if population is not None and not population >= array.size:
        raise ValueError(f"population is {population}, but there are {array.size} values: give the number of all")
    check_confidence(confidence)
    if array.size == 0:
        return np.empty((0, 2))
    lowest, highest = value_range
    n = np.arange(1, x.size + 1)
    mean = np.cumsum(x) / n
    if clusters is not None:
        ends = _clustered(x, clusters, confidence)
    elif name == "running":
        v = np.cumsum((x - np.concatenate([[FIRST_GUESS], mean[:-1]])) ** 2)
        ends = np.stack(running_interval(mean, n, v, confidence=confidence, v_opt=v_opt), axis=1)
    elif name == "asymptotic":
        variance = np.maximum(np.cumsum((x - x[0]) ** 2) / n - (mean - x[0]) ** 2, 0.0) * n / np.maximum(n - 1, 1)
        ends = np.stack(asymptotic_interval(mean, n, variance, confidence=confidence), axis=1)
    elif name == "empirical_bernstein":
        ends = bernstein_path(x, confidence)
    else:
        ends = _betting(x, confidence, population)
    return np.asarray(lowest + (highest - lowest) * ends)


def _betting(x: Floats, confidence: float, population: int | None) -> Floats:
    table = BettingTable(confidence)
    row = np.array([table.add_row(population)])
    ends = np.empty((x.size, 2))
    for index in range(x.size):
        table.update(row, x[index : index + 1])
        lower, upper = table.interval(row)
        ends[index] = lower[0], upper[0]
    return ends


def _clustered(x: Floats, clusters: Sequence[Hashable] | ArrayLike, confidence: float) -> Floats:
    names = clusters if isinstance(clusters, Sequence) else np.asarray(clusters).tolist()
    if len(names) != x.size:
        raise ValueError(f"clusters has {len(names)} names for {x.size} values: name the cluster of each value")
    table = ClusterTable()
    row = np.array([table.add_row()])
    ends = np.tile([0.0, 1.0], (x.size, 1))
    closing = closings(names)
    for places, following in zip(closing, [*closing[1:], [x.size]], strict=True):
        table.update(row, np.array([len(places)]), np.array([np.sum(x[places])]))
        lower, upper = clustered_interval(table.read(row), confidence=confidence)
        ends[places[-1] : following[-1]] = lower[0], upper[0]
    return ends
