"""Features in [0, 1] from covariates of any unit, for predictions: each feature knows its own item and those before.

A prediction may depend on all that is known before the score. So a scale is taken from the first items and then held
fixed, and the values of a segment get their places in the order in which they occur. Later items change no feature of
an earlier one, so an interval that is computed again with more items continues the same sequence.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..tables.batches import Floats

SCALED_BY: Final = 100
"""Numbers from which the scale of a covariate is taken."""

UNKNOWN: Final = 0.5
"""The feature of an item without the covariate, and of all items before there is a scale."""

_DEVIATIONS: Final = 6.0
"""Standard deviations that the interval [0, 1] holds; numbers beyond are cut off."""


def of_numbers(numbers: Floats) -> Floats:
    """Return the feature of a covariate of numbers, shape (items, 1).

    It is linear in the logarithm of 1 + the number, so that lengths and counts with a long tail keep their middle.

    Args:
        numbers: in any unit, in the order of the items, shape (items,); nan for an item without the covariate.

    >>> of_numbers(np.tile([1.0, np.e**2 - 1], 60))[[0, 100, 101]].round(2).ravel().tolist()
    [0.5, 0.33, 0.67]
    """
    logs = np.sign(numbers) * np.log1p(np.abs(numbers))
    features = np.full((logs.size, 1), UNKNOWN)
    known = np.flatnonzero(np.isfinite(logs))
    first, later = known[:SCALED_BY], known[SCALED_BY:]
    spread = float(logs[first].std()) if first.size else 0.0
    if later.size and spread > 0:
        features[later, 0] = np.clip(UNKNOWN + (logs[later] - logs[first].mean()) / (_DEVIATIONS * spread), 0.0, 1.0)
    return features


def of_values(values: Sequence[str | None], most: int) -> Floats:
    """Return the features of a segment, shape (items, most): 1 for one value each, 0 for all others.

    The first value that occurs has no feature, because the others are compared with it. The next `most` values
    have one each, in the order in which they occur. Further values, and items without one, are 0 throughout.

    >>> of_values(["en", "de", None, "fr", "de"], 1).ravel().tolist()
    [0.0, 1.0, 0.0, 0.0, 1.0]
    """
    places: dict[str, int] = {}
    features = np.zeros((len(values), most))
    for number, value in enumerate(values):
        if value is not None:
            place = places.setdefault(value, len(places)) - 1
            if 0 <= place < most:
                features[number, place] = 1.0
    return features
