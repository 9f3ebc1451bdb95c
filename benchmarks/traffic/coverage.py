"""How often the running interval ever misses the average of the true means: by item, and over clusters."""

from typing import Final

import numpy as np

from ragtide_aggregator.statistics.clustered_interval import clustered_interval
from ragtide_aggregator.statistics.clusters import ClusterSums, ClusterTable
from ragtide_aggregator.statistics.running import FIRST_GUESS, running_interval

from .closings import closings
from .stream import Codes, Floats, Traffic

FIRST_LOOK: Final = 30
CONFIDENCE: Final = 0.95


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
    return float(np.mean(_missed(lower, upper, truth[:, look]).any(axis=1)))


def ever_missed_by_cluster(traffic: Traffic, by: str, *, size: int, quiet_s: float) -> float:
    """Return the share of runs in which the interval over closed clusters ever missed, from 30 values in them on."""
    closed = closings(traffic, by, size=size, quiet_s=quiet_s)
    counts = np.bincount(closed.run, minlength=traffic.runs)
    begins = np.cumsum(counts) - counts
    table = ClusterTable()
    for _ in range(traffic.runs):
        table.add_row()
    looks: list[tuple[Codes, ClusterSums]] = []
    for step in range(int(counts.max())):
        rows = np.flatnonzero(counts > step)
        taken = begins[rows] + step
        table.update(rows, closed.size[taken], np.minimum(closed.total[taken], closed.size[taken]))
        looks.append((taken, table.read(rows)))
    taken = np.concatenate([places for places, _ in looks])
    fields = ("count", "n", "sizes", "mean", "squares", "squares_below", "squares_above", "largest_below")
    sums = ClusterSums(
        *(np.concatenate([getattr(one, name) for _, one in looks]) for name in (*fields, "largest_above"))
    )
    lower, upper = clustered_interval(sums, confidence=CONFIDENCE)
    # The average of the true means over the values of all clusters of the run that were closed by then.
    expected = np.cumsum(closed.expected)
    run = closed.run[taken]
    before = np.concatenate([[0.0], expected])[begins[run]]
    missed = _missed(lower, upper, (expected[taken] - before) / sums.n) & (sums.n >= FIRST_LOOK)
    return float(np.mean(np.bincount(run, missed, minlength=traffic.runs) > 0))


def _missed(lower: Floats, upper: Floats, truth: Floats) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    # Rounding of long sums is no miss.
    return (truth < lower - 1e-9) | (truth > upper + 1e-9)
