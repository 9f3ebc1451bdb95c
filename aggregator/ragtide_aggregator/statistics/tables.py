"""Shared by all tables of state: growth, and the refusal of values out of range."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .batches import Floats

Scalar = TypeVar("Scalar", bound=np.generic)


def doubled(array: NDArray[Scalar], fill: float = 0, *, axis: int = 0) -> NDArray[Scalar]:
    """Return an array with room for twice as many rows; the new ones hold `fill`."""
    return np.concatenate([array, np.full_like(array, fill)], axis=axis)


def checked(values: Floats, highest: float = 1.0) -> None:
    """Check values of a table.

    Raises: ValueError if one is not finite, below 0, or above the highest.
    """
    if not np.all((values >= 0) & (values <= highest) & np.isfinite(values)):
        raise ValueError(f"values holds one that is not in [0, {highest:g}]: scale by the metric's range first")
