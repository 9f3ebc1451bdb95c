"""How often the running interval ever misses the average of the true means: by item, and over clusters."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.intervals.running import FIRST_GUESS, running_interval
from ragtide_aggregator.statistics.means.clustered_interval import clustered_boundary
from ragtide_aggregator.statistics.means.clusters import ClusterSums

from .closings import Closings, closings
from .stream import Codes, Floats, Traffic

FIRST_LOOK: Final = 30
CONFIDENCE: Final = 0.95
_ROUNDING: Final = 1e-9
_EVERY: Final = 10
"""Every so many clusters the boundary is computed; in between only where it may be crossed."""


def ever_missed_by_item(traffic: Traffic) -> float:
    """Return the share of runs in which the interval of single values ever missed, looked at from item 30 on."""
    x = traffic.value
    n = np.broadcast_to(np.arange(1, traffic.n + 1), x.shape)
    mean = np.cumsum(x, axis=1) / n
    guess = np.concatenate([np.full((traffic.runs, 1), FIRST_GUESS), mean[:, :-1]], axis=1)
    v = np.cumsum((x - guess) ** 2, axis=1)
    truth = np.cumsum(traffic.mean, axis=1) / n
    look = slice(FIRST_LOOK - 1, None)
    lower, upper = running_interval(mean[:, look], n[:, look], v[:, look], confidence=CONFIDENCE)
    missed = (truth[:, look] < lower - _ROUNDING) | (truth[:, look] > upper + _ROUNDING)
    return float(np.mean(missed.any(axis=1)))


def ever_missed_by_cluster(traffic: Traffic, by: str, *, size: int, quiet_s: float) -> float:
    """Return the share of runs in which the interval over closed clusters ever missed, from 30 values in them on."""
    closed = closings(traffic, by, size=size, quiet_s=quiet_s)
    place = np.arange(closed.run.size) - np.searchsorted(closed.run, closed.run)
    sums, error = _sums(closed, place)
    above = _beyond(error, sums.squares, sums.squares_below, sums.largest_below, place)
    below = _beyond(-error, sums.squares, sums.squares_above, sums.largest_above, place)
    missed = (above | below) & (sums.n >= FIRST_LOOK)
    return float(np.mean(np.bincount(closed.run, missed, minlength=traffic.runs) > 0))


def _beyond(error: Floats, squares: Floats, weighted: Floats, largest: Floats, place: Codes) -> NDArray[np.bool_]:
    """Return which errors of sums are beyond the boundary of one side.

    Args:
        error: sums less their expected values, after each cluster.
        squares: arguments of the boundary, and so are the next two.
        weighted: of this side.
        largest: of this side.
        place: number of each cluster in its run.
    """

    def boundary(at: Codes) -> Floats:
        return clustered_boundary(squares[at], weighted[at], largest[at], alpha_side=(1 - CONFIDENCE) / 2)

    # The boundary never falls, so where a sum is within an earlier one there is nothing to compute.
    earlier = np.flatnonzero(place % _EVERY == 0)
    known = boundary(earlier)[np.searchsorted(earlier, np.arange(place.size), side="right") - 1]
    beyond = error > known
    doubtful = np.flatnonzero(beyond)
    # Rounding of long sums is no miss.
    beyond[doubtful] = error[doubtful] > boundary(doubtful) + _ROUNDING
    return np.asarray(beyond)


def _sums(closed: Closings, place: Codes) -> tuple[ClusterSums, Floats]:
    """Return the sums over the clusters of each run up to each, and by how much values exceeded their true means."""
    first = np.flatnonzero(place == 0)
    of = np.cumsum(place == 0) - 1

    def added(values: Floats) -> Floats:
        """Return sums within each run."""
        whole = np.cumsum(values)
        return np.asarray(whole - (whole - values)[first][of])

    def highest(values: Floats) -> Floats:
        """Return the largest so far within each run."""
        # Values are below the step between runs.
        step = 2 * float(values.max(initial=1.0))
        return np.asarray(np.maximum.accumulate(values + step * of) - step * of)

    sizes = closed.size.astype(np.float64)
    n = added(sizes)
    total = added(closed.total)
    before = n - closed.size
    guess = np.where(before > 0, np.clip((total - closed.total) / np.maximum(before, 1), 0.0, 1.0), FIRST_GUESS)
    below, above = sizes * guess, sizes * (1 - guess)
    squares = (closed.total - below) ** 2
    sums = ClusterSums(
        count=place + 1, n=n.astype(np.int64), sizes=added(sizes**2).astype(np.int64),
        mean=total / n, squares=added(squares), squares_below=added(below * squares),
        squares_above=added(above * squares), largest_below=highest(below), largest_above=highest(above),
    )  # fmt: skip
    return sums, total - added(closed.expected)
