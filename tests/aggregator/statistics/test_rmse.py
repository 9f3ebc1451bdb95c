from math import sqrt

import pytest

from ragtide_aggregator.statistics.intervals.rmse import aggregated_rmse, consistency_score, rmse


def test_an_rmse_is_the_root_of_a_mean_squared_error() -> None:
    assert [rmse(0.0), rmse(0.09), rmse(1.0)] == pytest.approx([0.0, 0.3, 1.0])


def test_the_root_keeps_the_order_so_it_maps_the_ends_of_an_interval() -> None:
    lower, estimate, upper = (rmse(error) for error in (0.04, 0.09, 0.16))
    assert (lower, estimate, upper) == pytest.approx((0.2, 0.3, 0.4))


def test_the_aggregated_rmse_is_the_root_of_the_mean_of_the_squares_not_the_mean_of_the_roots() -> None:
    assert aggregated_rmse([0.09, 0.25]) == pytest.approx(sqrt(0.17))


@pytest.mark.parametrize(("aggregated", "score"), [(0.0, 1.0), (0.3, 0.7), (1.0, 0.0), (2.5, 0.0)])
def test_the_consistency_score_is_what_the_error_leaves_of_one(aggregated: float, score: float) -> None:
    assert consistency_score(aggregated) == pytest.approx(score)


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf")])
def test_what_is_no_mean_of_squares_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="mean_squared_error is"):
        rmse(wrong)
    with pytest.raises(ValueError, match="mean_squared_error is"):
        aggregated_rmse([0.1, wrong])


def test_no_errors_have_no_aggregate() -> None:
    with pytest.raises(ValueError, match="empty"):
        aggregated_rmse([])
