"""Two scores of the same items: what the items have in common cancels."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.stats import ttest_rel

from ragtide_aggregator.statistics.comparisons.paired import PairedDifference, paired_difference, paired_difference_once
from ragtide_aggregator.statistics.intervals.intervals import interval


def test_identical_scores_have_no_difference_and_next_to_no_uncertainty() -> None:
    scores = np.random.default_rng(1).uniform(0, 1, 976)
    found = paired_difference(scores, scores, value_range=(0.0, 1.0), confidence=0.95)
    assert (found.n, found.difference.estimate, found.strategy) == (976, 0.0, "running")
    assert -0.015 < found.difference.lower < 0 < found.difference.upper < 0.015
    known = paired_difference(scores, scores, value_range=(0.0, 1.0), confidence=0.95, closed=True)
    assert (known.difference.lower, known.difference.upper, known.strategy) == (0.0, 0.0, "closed")


def test_a_small_shift_of_every_item_is_found_although_items_differ_widely() -> None:
    rng = np.random.default_rng(2)
    scores = rng.uniform(0, 0.9, 400)
    found = paired_difference(scores + rng.uniform(0.04, 0.1, 400), scores, value_range=(0.0, 1.0), confidence=0.95)
    assert found.difference.estimate == pytest.approx(0.07, abs=0.01)
    assert found.difference.verdict == "higher"


def test_differences_are_in_the_metrics_unit() -> None:
    found = paired_difference([120.0] * 50, [100.0] * 50, value_range=(0.0, 1000.0), confidence=0.95)
    assert found.means == (120.0, 100.0)
    assert found.difference.estimate == pytest.approx(20.0)
    assert -1000.0 <= found.difference.lower < 20.0 < found.difference.upper <= 1000.0


def test_differences_of_counts_are_as_wide_as_they_differ() -> None:
    rng = np.random.default_rng(3)
    counts = rng.poisson(5.0, 300).astype(float)
    other = counts + rng.integers(-1, 2, 300).clip(-counts)
    found = paired_difference(counts, other, value_range=(0.0, 1000.0), confidence=0.95, counts=True)
    assert found.strategy == "asymptotic"
    assert found.difference.upper - found.difference.lower < 0.5
    one_differs = counts.copy()
    one_differs[5] += 500
    few = paired_difference(counts, one_differs, value_range=(0.0, 1000.0), confidence=0.95, counts=True)
    assert few.strategy == "running"


@pytest.mark.simulation
def test_at_most_a_twentieth_of_runs_ever_misses_although_each_is_looked_at_again_and_again() -> None:
    rng = np.random.default_rng(4)
    missed = 0
    for _ in range(100):
        base = rng.uniform(0, 1, 400)
        first, second = rng.random(400) < base, rng.random(400) < base
        looks = (
            paired_difference(first[:n], second[:n], value_range=(0.0, 1.0), confidence=0.95).difference
            for n in range(5, 401, 20)
        )
        missed += any(not look.lower <= 0 <= look.upper for look in looks)
    assert missed <= 5 + 3 * 2.2


@pytest.mark.parametrize(("first", "second"), [([], []), ([1.0], [1.0, 0.0]), ([2.0], [0.0])])
def test_pairs_that_cannot_be_are_refused(first: list[float], second: list[float]) -> None:
    with pytest.raises(ValueError, match="give"):
        paired_difference(first, second, value_range=(0.0, 1.0), confidence=0.95)


def once(first: ArrayLike, second: ArrayLike) -> PairedDifference:
    return paired_difference_once(first, second, value_range=(0.0, 1.0), confidence=0.95)


def test_valid_once_is_students_interval_if_enough_pairs_differ() -> None:
    rng = np.random.default_rng(7)
    first, second = rng.uniform(0.3, 0.9, 50), rng.uniform(0.3, 0.9, 50)
    found = once(first, second)
    assert found.strategy == "student"
    low, high = ttest_rel(first, second).confidence_interval(0.95)
    assert (found.difference.lower, found.difference.upper) == pytest.approx((low, high))


def test_valid_once_equal_pairs_and_a_few_that_differ_have_an_interval_with_a_width() -> None:
    equal = once([0.5] * 40, [0.5] * 40)
    assert (equal.strategy, equal.difference.estimate) == ("wilson", 0.0)
    assert -0.1 < equal.difference.lower < 0 < equal.difference.upper < 0.1
    rises = once([1.0] * 4 + [0.5] * 36, [0.0] * 4 + [0.5] * 36)
    alone = interval("wilson", mean=0.1, n=40)
    assert rises.difference.upper == pytest.approx(alone.upper)
    assert rises.difference.lower < alone.lower
    turned = once([0.0] * 4 + [0.5] * 36, [1.0] * 4 + [0.5] * 36)
    assert (turned.difference.lower, turned.difference.upper) == (
        -rises.difference.upper,
        -rises.difference.lower,
    )
    one = once([1.0], [0.0]).difference
    assert -1 <= one.lower < 1
    assert one.upper == 1


Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def ternary(rise: float, fall: float) -> Draw:
    return lambda rng, n: rng.choice([1.0, 0.0, -1.0], n, p=[rise, 1 - rise - fall, fall])


@pytest.mark.simulation
@pytest.mark.parametrize("n", [20, 40, 100])
@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        *((ternary(rise, fall), rise - fall) for rise, fall in (
            (0.01, 0.01), (0.05, 0.0), (0.1, 0.05), (0.25, 0.25), (0.4, 0.1), (0.8, 0.0), (0.9, 0.05),
        )),
        (lambda rng, n: rng.normal(0.05, 0.1, n).clip(-1, 1), 0.05),
        (lambda rng, n: np.where(rng.random(n) < 0.3, rng.uniform(0, 0.4, n), 0.0), 0.06),
    ],
)  # fmt: skip
def test_valid_once_misses_about_a_twentieth_of_samples_at_most(draw: Draw, mean: float, n: int) -> None:
    """The limit may add a percent: 0.06 in 500 samples, with three standard errors of a share."""
    rng = np.random.default_rng(20261127)
    missed = 0
    for _ in range(500):
        gaps = draw(rng, n)
        found = once(np.maximum(gaps, 0), np.maximum(-gaps, 0)).difference
        missed += not found.lower <= mean <= found.upper
    assert missed <= 500 * 0.06 + 3 * (500 * 0.06 * 0.94) ** 0.5


def test_valid_once_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="give"):
        once([], [])
    with pytest.raises(ValueError, match="confidence"):
        paired_difference_once([0.5], [0.5], value_range=(0.0, 1.0), confidence=1.0)
