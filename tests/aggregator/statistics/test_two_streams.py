from typing import Any

import numpy as np
import pytest

from ragtide_aggregator.statistics.comparisons.comparing import difference
from ragtide_aggregator.statistics.comparisons.two_streams import stream_difference
from ragtide_aggregator.statistics.means.moments import Moments, MomentTable

Array = np.ndarray[Any, Any]


def moments(n: Array, variance: Array, mean: float = 0.5) -> Moments:
    """Return moments of streams whose intrinsic time is that of their variance."""
    zeros = np.zeros(n.shape)
    v = n * variance + 0.25
    return Moments(n=n, mean=zeros + mean, m2=n * variance, v=v, recent=zeros, minimum=zeros, maximum=zeros + 1)


@pytest.mark.parametrize(
    ("n", "share", "most"),
    [(60, 0.5, 0.88), (2000, 0.5, 0.74), (20_000, 0.5, 0.78), (2000, 0.1, 0.89), (10**6, 0.001, 1.2)],
)
def test_it_is_narrower_than_the_sum_of_two_intervals(n: int, share: float, most: float) -> None:
    variance = np.array([0.1275])
    a, b = moments(np.array([int(share * n)]), variance), moments(np.array([int((1 - share) * n)]), variance)
    lower, upper = stream_difference(a, b, confidence=0.95)
    two = difference(a, b, confidence=0.95)
    assert (upper[0] - lower[0]) <= most * (two.upper - two.lower)
    assert lower[0] == -upper[0]
    mirrored = stream_difference(b, a, confidence=0.95)
    np.testing.assert_allclose(mirrored, (lower, upper), rtol=1e-3)


def test_what_is_out_of_range_is_refused() -> None:
    some, none = moments(np.array([10]), np.array([0.1])), moments(np.array([0]), np.array([0.1]))
    with pytest.raises(ValueError, match="confidence"):
        stream_difference(some, some, confidence=1.0)
    with pytest.raises(ValueError, match="no values yet"):
        stream_difference(some, none, confidence=0.95)


RUNS, LENGTH, ALPHA = 300, 600, 0.5


@pytest.mark.simulation
@pytest.mark.parametrize("share", [0.5, 0.05])
@pytest.mark.parametrize("moving", [False, True], ids=["still", "moving"])
def test_looking_again_and_again_misses_in_at_most_alpha_of_the_runs(share: float, *, moving: bool) -> None:
    """The means move with the other stream's last value, so the streams depend on each other."""
    rng = np.random.default_rng((int(100 * share), moving))
    table, rows = MomentTable(), np.arange(RUNS)
    for _ in range(2 * RUNS):
        table.add_row()
    last = np.zeros((2, RUNS))
    asked, counts = np.zeros((2, RUNS)), np.zeros((2, RUNS))
    missed = np.zeros(RUNS, dtype=bool)
    for number in range(LENGTH):
        stream = (rng.random(RUNS) >= share).astype(int)
        mean = np.where(stream == 0, 0.85, 0.8) - (0.3 * last[1 - stream, rows] if moving else 0.0)
        x = (rng.random(RUNS) < mean).astype(float)
        last[stream, rows] = x
        table.update(rows + RUNS * stream, x)
        asked[stream, rows] += mean
        counts[stream, rows] += 1
        both = np.flatnonzero((counts > 0).all(axis=0))
        if number % 20 == 0 and both.size:
            lower, upper = stream_difference(table.read(both), table.read(both + RUNS), confidence=1 - ALPHA)
            truth = np.subtract(*(asked[:, both] / counts[:, both]))
            missed[both] |= (truth < lower) | (truth > upper)
    assert missed.mean() <= ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / RUNS)
