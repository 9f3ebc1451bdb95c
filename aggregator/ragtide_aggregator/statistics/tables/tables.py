"""Shared by all statistics: growth of arrays, and checks of arguments."""

from math import isfinite
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .batches import Floats

Scalar = TypeVar("Scalar", bound=np.generic)


def doubled(array: NDArray[Scalar], fill: float = 0, *, axis: int = 0) -> NDArray[Scalar]:
    """Return an array with room for twice as many rows; the new rows have the value `fill`."""
    return np.concatenate([array, np.full_like(array, fill)], axis=axis)


def checked(values: Floats, highest: float = 1.0) -> None:
    """Check values of a table.

    Raises: ValueError if a value is not finite, below 0, or above the highest.
    """
    if not np.all((values >= 0) & (values <= highest) & np.isfinite(values)):
        raise ValueError(f"a value is not in [0, {highest:g}]: scale values by the metric's range first")


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless a level is in (0, 1)."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: give a level between 0 and 1, such as 0.95")


def check_range(value_range: tuple[float, float]) -> None:
    """Raise ValueError unless a value range is finite and not empty."""
    if not (isfinite(value_range[0]) and isfinite(value_range[1]) and value_range[0] < value_range[1]):
        raise ValueError(f"value_range is {value_range}: give a finite lowest and a higher highest value")


def scaled(values: Floats, value_range: tuple[float, float]) -> Floats:
    """Return values scaled from their range to [0, 1].

    Raises: ValueError if a value is not finite or outside the range.
    """
    lowest, highest = value_range
    wrong = np.flatnonzero(~((values >= lowest) & (values <= highest)))
    if wrong.size:
        raise ValueError(
            f"values[{wrong[0]}] is {values[wrong[0]]}, outside {lowest} to {highest}: "
            "leave unknown values out and give the right value_range"
        )
    return np.asarray((values - lowest) / (highest - lowest))
