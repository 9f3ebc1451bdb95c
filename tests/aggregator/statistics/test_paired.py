"""Two scores of the same items: what the items have in common cancels."""

import numpy as np
import pytest

from ragtide_aggregator.statistics.comparisons.paired import paired_difference


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
