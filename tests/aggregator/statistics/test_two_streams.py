from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtide_aggregator.statistics.comparing import difference
from ragtide_aggregator.statistics.moments import Moments, MomentTable
from ragtide_aggregator.statistics.two_streams import joint_half_width, stream_difference

Array = np.ndarray[Any, Any]


def moments(n: Array, variance: Array, mean: float = 0.5) -> Moments:
    """Return moments of streams whose intrinsic time is that of their variance."""
    zeros = np.zeros(n.shape)
    v = n * variance + 0.25
    return Moments(n=n, mean=zeros + mean, m2=n * variance, v=v, recent=zeros, minimum=zeros, maximum=zeros + 1)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0, 0.25)), min_size=1, max_size=4),
    st.floats(0.5, 0.999),
)
def test_it_is_wider_than_either_stream_alone_needs_and_no_key_depends_on_another(
    pairs: list[tuple[int, int, float]], confidence: float
) -> None:
    n_a, n_b, variance = (np.array(column) for column in zip(*pairs, strict=True))
    level = log(2 / (1 - confidence))
    a, b = moments(n_a, variance), moments(n_b, 0.25 - variance)
    found = joint_half_width(a, b, level=level)
    assert np.all(np.isfinite(found))
    assert np.all(found > 0)
    np.testing.assert_allclose(joint_half_width(b, a, level=level), found, rtol=1e-5)
    for number in range(len(pairs)):
        one = slice(number, number + 1)
        alone = joint_half_width(moments(n_a[one], variance[one]), moments(n_b[one], 0.25 - variance[one]), level=level)
        assert alone.tolist() == found[one].tolist()


@pytest.mark.parametrize(("n_a", "n_b"), [(300, 300), (40, 4000), (5, 100_000)])
def test_no_pair_of_sums_inside_the_region_has_a_larger_error(n_a: int, n_b: int) -> None:
    """The mixtures are written down again, and the edge of their region is walked."""
    bets = np.geomspace(3e-4, 0.9, 40)
    shape = np.exp(-((np.log(bets / 0.1) / 1.3) ** 2) / 2)
    weights = 0.85 * (0.4 / 40 + 0.6 * shape / shape.sum())
    level, variance = log(40), 0.13

    def log_mixture(s: Array, v: float) -> Array:
        parts = np.log(weights) + np.multiply.outer(s, bets) - (-np.log1p(-bets) - bets) * v
        return np.asarray(np.logaddexp(np.logaddexp.reduce(parts, axis=-1), log(0.15)))

    v_a, v_b = (n * variance + 0.25 for n in (n_a, n_b))
    s_a = np.linspace(-40 * np.sqrt(v_a), 40 * np.sqrt(v_a), 4001)
    left = level - log_mixture(s_a, v_a)
    grid = np.linspace(-40 * np.sqrt(v_b), 40 * np.sqrt(v_b), 20001)
    held = log_mixture(grid, v_b)
    place = np.searchsorted(held, left, side="right") - 1
    inside = (left > held[0]) & (place < grid.size - 1)
    errors = s_a[inside] / n_a + grid[place[inside]] / n_b
    found = joint_half_width(
        moments(np.array([n_a]), np.array([variance])), moments(np.array([n_b]), np.array([variance])), level=level
    )
    assert errors.max() <= found[0]
    assert found[0] <= errors.max() * 1.01


@pytest.mark.parametrize(
    ("n", "share", "most"),
    [(100, 0.5, 0.85), (2000, 0.5, 0.75), (10**5, 0.5, 0.75), (2000, 0.1, 0.9), (10**6, 0.001, 1.12)],
)
def test_it_is_narrower_than_the_sum_of_two_intervals(n: int, share: float, most: float) -> None:
    variance = np.array([0.1275])
    a, b = moments(np.array([int(share * n)]), variance), moments(np.array([int((1 - share) * n)]), variance)
    lower, upper = stream_difference(a, b, confidence=0.95)
    two = difference(a, b, confidence=0.95)
    assert (upper[0] - lower[0]) <= most * (two.upper - two.lower)
    assert lower[0] == -upper[0]


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
