"""Drift detectors of others, each as a score after every value: it alarms when the score exceeds a threshold.

Values before column `start` are a reference: history without a change. Windows are compared with it, or begin in it;
Page-Hinkley and ADWIN know no reference and begin at `start`. All look for a fall, except for the drift tests, which
ask whether anything changed. First alarms are those of a loop over the values; a test compares them with river's and
SciPy's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from scipy.signal import lfilter
from scipy.stats import kstwobign

from .adwin import adwin_scores
from .stream import Floats, Traffic
from .windows import hour_means, level_counts, strided, window_means

Scores = Callable[[Traffic, int], Floats]
"""From traffic and the column at which the reference ends to scores of the shape (runs, n - start)."""

HOUR_LEAST: Final = 20
"""Values that the last hour must have before its mean is looked at."""
_PSI_LEAST: Final = 1e-4
"""Share that an empty bin counts with, as monitoring products do."""
_PH_DELTA, _PH_ALPHA, _PH_LEAST = 0.005, 0.9999, 30
"""Defaults of river's PageHinkley."""


@dataclass(frozen=True)
class Peer:
    """A detector of others."""

    name: str
    scores: Scores
    usual: float | None
    """Threshold that products and libraries come with; None where there is no custom."""
    usual_name: str = ""
    """The usual threshold in its own words."""


def window_mean(size: int) -> Scores:
    """Return minus the mean of the last values, after each value."""

    def scores(traffic: Traffic, start: int) -> Floats:
        return -window_means(traffic.value, size)[:, start:]

    return scores


def last_hour(traffic: Traffic, start: int) -> Floats:
    """Return minus the mean of the scores of the last hour, after each value."""
    means, counts = hour_means(traffic.value, traffic.labeled_s)
    return np.where(counts >= HOUR_LEAST, -means, -np.inf)[:, start:]


def standard_errors(size: int) -> Scores:
    """Return by how many standard errors the mean of the last values is below that of the reference.

    The standard error is that of independent values: of the window and of the reference. Looked at ten times a window.
    """

    def scores(traffic: Traffic, start: int) -> Floats:
        reference = traffic.value[:, :start]
        error = np.sqrt(reference.var(axis=1, ddof=1) * (1 / size + 1 / start))
        fall = reference.mean(axis=1)[:, None] - window_means(traffic.value, size)[:, start:]
        return strided(fall / np.maximum(error, 1e-12)[:, None], size // 10)

    return scores


def chunk_deviations(size: int) -> Scores:
    """Return by how many standard deviations of the reference's chunk means a chunk's mean is below theirs.

    Chunks follow each other without overlap, so the spread of their means includes what depends within them.
    """

    def scores(traffic: Traffic, start: int) -> Floats:
        chunks = traffic.value[:, : start // size * size].reshape(traffic.runs, -1, size).mean(axis=2)
        means = window_means(traffic.value, size)[:, start:]
        spread = np.maximum(chunks.std(axis=1, ddof=1), 1e-12)[:, None]
        found = strided((chunks.mean(axis=1)[:, None] - means) / spread, size)
        found[:, : size - 1] = -np.inf
        return found

    return scores


def kolmogorov_smirnov(size: int) -> Scores:
    """Return the two-sample statistic of the last values against the reference, ten times a window."""

    def scores(traffic: Traffic, start: int) -> Floats:
        reference, window = level_counts(traffic.value, start, size)
        apart = np.cumsum(window / size, axis=2) - np.cumsum(reference / start, axis=1)[:, None]
        return strided(np.abs(apart).max(axis=2), size // 10)

    return scores


def stability_index(size: int) -> Scores:
    """Return the population stability index of the last values against the reference, ten times a window."""

    def scores(traffic: Traffic, start: int) -> Floats:
        reference, window = level_counts(traffic.value, start, size)
        before = np.maximum(reference / start, _PSI_LEAST)[:, None]
        now = np.maximum(window / size, _PSI_LEAST)
        return strided(np.sum((now - before) * np.log(now / before), axis=2), size // 10)

    return scores


def page_hinkley(traffic: Traffic, start: int) -> Floats:
    """Return the statistic of river's PageHinkley for falls, with its defaults."""
    values = traffic.value[:, start:]
    numbers = np.arange(1, values.shape[1] + 1)
    rest = values - np.cumsum(values, axis=1) / numbers + _PH_DELTA
    sums = lfilter([1.0], [1.0, -_PH_ALPHA], rest, axis=1)
    scores = np.maximum(np.maximum.accumulate(sums, axis=1), -1.0) - sums
    return np.where(numbers >= _PH_LEAST, scores, -np.inf)


def adwin(traffic: Traffic, start: int) -> Floats:
    """Return log(1 / delta) of the least delta at which ADWIN finds a fall; river's defaults."""
    return adwin_scores(traffic.value[:, start:], falls_only=True)


def critical_distance(p: float, reference: int, size: int) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples at which the asymptotic p value is p."""
    return float(kstwobign.isf(p)) * sqrt((reference + size) / (reference * size))


def peers(reference: int) -> tuple[Peer, ...]:
    """Return all peers, for a reference of so many values."""
    return (
        Peer("mean of the last 100", window_mean(100), -0.80, "below 0.80"),
        Peer("mean of the last hour", last_hour, -0.80, "below 0.80"),
        Peer("mean of the last 500", window_mean(500), -0.80, "below 0.80"),
        Peer("standard errors, 100", standard_errors(100), 2.0, "2"),
        Peer("standard errors, 500", standard_errors(500), 2.0, "2"),
        Peer("deviations of chunks, 100", chunk_deviations(100), 3.0, "3"),
        Peer("Page-Hinkley", page_hinkley, 50.0, "50"),
        Peer("ADWIN", adwin, float(np.log(1 / 0.002)), "delta 0.002"),
        Peer("Kolmogorov-Smirnov, 500", kolmogorov_smirnov(500), critical_distance(0.05, reference, 500), "p 0.05"),
        Peer("population stability, 500", stability_index(500), 0.2, "0.2"),
    )
