"""Exact sums of many keys at once, independent of the order of the values, without rounding after a billion values.

A sum is three whole numbers: units, 2^-40, and 2^-80. Values are cut at 2^-80, which is exact for values of 2^-27 or
more. Whole numbers add up exactly, so sums can be merged, split and reordered without changing a bit.
Related: Neal (2015), "Fast exact summation using small and large superaccumulators", arXiv:1505.05571.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .batches import Floats, Grouped, Rows

Limbs = NDArray[np.int64]
"""Sums: units, 2^-40 and 2^-80 on the first axis, shape (3, ...)."""

_BITS: Final = 40
_SCALE: Final = float(2**_BITS)
_MASK: Final = 2**_BITS - 1

UNIT: Final = 2**_BITS
"""Units of a part in one unit of the part above; a carried part is smaller than this."""

MOST_VALUES: Final = 2**22
"""Most values that can be added at once; more could overflow."""


def limbs(values: Floats) -> Limbs:
    """Return each value of 0 or more as a sum."""
    parts = np.empty((3, *values.shape), dtype=np.int64)
    units = np.floor(values)
    first = values - units
    first *= _SCALE
    high = np.floor(first)
    first -= high
    first *= _SCALE
    parts[0], parts[1], parts[2] = units, high, first
    return parts


def carried(sums: Limbs) -> Limbs:
    """Return sums in which each part's overflow is carried into the part above."""
    units, high, low = sums
    parts = np.empty_like(sums)
    high = high + (low >> _BITS)
    parts[0], parts[1], parts[2] = units + (high >> _BITS), high & _MASK, low & _MASK
    return parts


def as_floats(sums: Limbs) -> Floats:
    """Return carried sums as floats."""
    units, high, low = sums
    return np.asarray(units + (high + low / _SCALE) / _SCALE)


def add(state: Limbs, batch: Grouped, values: Limbs) -> None:
    """Add values, in the batch's order, to the rows of a state."""
    state[:, batch.rows] = carried(state[:, batch.rows] + batch.sums(values))


def before(state: Limbs, batch: Grouped, values: Limbs) -> Floats:
    """Return the sum of each value's row before that value."""
    return as_floats(carried(batch.before(values, state[:, batch.rows])))


WHOLE: Final = 2 ** (2 * _BITS)
"""Smallest parts in one unit."""


def whole(parts: Limbs) -> int:
    """Return a carried sum, of shape (3,), as a whole number of its smallest parts."""
    units, high, low = parts.tolist()
    return int(units * WHOLE + high * UNIT + low)


def totals(state: Limbs, rows: Rows) -> Floats:
    """Return the sums of rows."""
    return as_floats(state[:, rows])
