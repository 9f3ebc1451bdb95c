"""Statistics of sliding windows over runs, after each value."""

import numpy as np

from .stream import Floats

HOUR_S = 3_600.0


def window_means(values: Floats, size: int) -> Floats:
    """Return the mean of the last `size` values after each; infinite before there are so many."""
    sums = np.cumsum(values, axis=1)
    means = np.full(values.shape, np.inf)
    means[:, size - 1 :] = sums[:, size - 1 :]
    means[:, size:] -= sums[:, :-size]
    return means / size


def hour_means(values: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Return mean and number of the values of the last hour, after each value.

    Args:
        values: shape (runs, n).
        times: in seconds, rising within each run; same shape.
    """
    sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    begins = np.stack([np.searchsorted(run, run - HOUR_S, side="right") for run in times])
    ends = np.arange(1, values.shape[1] + 1)
    counts = ends - begins
    return (sums[:, 1:] - np.take_along_axis(sums, begins, axis=1)) / counts, counts.astype(np.float64)


def strided(scores: Floats, step: int) -> Floats:
    """Return the scores at every step-th value, from the step-th on, and minus infinity between them."""
    found = np.full(scores.shape, -np.inf)
    found[:, step - 1 :: step] = scores[:, step - 1 :: step]
    return found


def level_counts(values: Floats, start: int, size: int) -> tuple[Floats, Floats]:
    """Return how often each level of the values occurs in the reference, and in the last values after each later one.

    Args:
        values: shape (runs, n), of few distinct levels.
        start: the reference are the columns before it.
        size: number of last values.

    Returns:
        Shapes (runs, levels) and (runs, n - start, levels). A window begins with values of the reference.
    """
    levels = np.unique(values)
    reference = np.stack([np.sum(values[:, :start] == level, axis=1) for level in levels], axis=1)
    windows = np.stack([window_means((values == level).astype(float), size)[:, start:] for level in levels], axis=2)
    return reference.astype(np.float64), windows * size
