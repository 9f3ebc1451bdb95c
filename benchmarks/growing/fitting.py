"""Fits the parts of a cost to measured points."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls


def fitted(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return the parts of a cost, none of them negative, that fit points best in relative errors.

    Args:
        rows: amounts of each part in a point.
        values: cost of each point; one that is not positive is below the noise, and says nothing.
    """
    y, table = np.array(values), np.array(rows, dtype=np.float64)
    seen = y > 0
    found, _ = (
        nnls(table[seen] / y[seen, None], np.ones(int(seen.sum()))) if seen.any() else (np.zeros(table.shape[1]), 0)
    )
    return [float(f"{value:.4g}") for value in found]
