"""Root mean squared error, and the estimates derived from it.

Source: docs/understand/statistics.md, "Error against truth".
"""

from collections.abc import Sequence
from math import inf, sqrt


def rmse(mean_squared_error: float) -> float:
    """Return the root of a mean squared error; it is increasing, so it maps the ends of an interval, too.

    Raises: ValueError if the mean squared error is negative or not finite.
    """
    _check(mean_squared_error)
    return sqrt(mean_squared_error)


def aggregated_rmse(mean_squared_errors: Sequence[float]) -> float:
    """Return the root of the mean of several metrics' mean squared errors.

    >>> aggregated_rmse([0.09, 0.16])
    0.3535533905932738

    Raises: ValueError if there are none, or one is negative or not finite.
    """
    if not mean_squared_errors:
        raise ValueError("mean_squared_errors is empty: give at least one")
    for mean_squared_error in mean_squared_errors:
        _check(mean_squared_error)
    return rmse(sum(mean_squared_errors) / len(mean_squared_errors))


def consistency_score(aggregated: float) -> float:
    """Return 1 - min(aggregated RMSE, 1): 1 for no error, in [0, 1]."""
    return 1.0 - min(aggregated, 1.0)


def _check(mean_squared_error: float) -> None:
    if not 0 <= mean_squared_error < inf:
        raise ValueError(f"mean_squared_error is {mean_squared_error}: a mean of squares is finite and 0 or more")
