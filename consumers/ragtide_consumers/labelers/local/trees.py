"""Evaluates boosted regression trees of depth 3: comparisons and exact sums, so equal input gives equal bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from .overlap import Floats
from .words import Indices

DEPTH: Final = 3
"""Comparisons from the root of a tree to its leaf."""

DECIMALS: Final = 9
"""Decimals to which features are rounded before they are compared, so that a last bit decides nothing."""

_UNIT: Final = 2.0**40
"""Values are rounded to multiples of 1 / _UNIT, so that their sums are exact in any order."""


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Groups of trees; the sum of each group predicts a number. Trees are complete: node k has 2k + 1 and 2k + 2."""

    features: Indices
    """By tree and inner node: position of the feature that is compared."""
    thresholds: Floats
    """By tree and inner node: the right child follows if the feature is more than this."""
    values: Floats
    """Summand of the prediction by tree and result of its comparisons, a byte whose first bit is that of the root."""
    starts: Indices
    """By tree: position of its first value."""
    groups: Indices
    """By group: number of its first tree."""

    @classmethod
    def read(cls, groups: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Self:
        """Return trees from their stored form, in which features have names.

        Args:
            groups: for each predicted number `features` (names), `thresholds` (null for a node without a choice) and
                `values`, by tree.
            names: of all features, in the order of the vector that is predicted from.

        Raises:
            ValueError: a stored feature has none of these names, a group is empty, or a tree is not complete.
        """
        place = {name: number for number, name in enumerate(names)}
        features, thresholds, values = (
            [tree for stored in groups for tree in stored[part]] for part in ("features", "thresholds", "values")
        )
        unknown = sorted({name for tree in features for name in tree} - place.keys())
        if unknown:
            raise ValueError(f"the trees compare the unknown feature {unknown[0]!r}; fit them again")
        nodes, leaves = 2**DEPTH - 1, 2**DEPTH
        sizes = {tuple(map(len, tree)) for tree in zip(features, thresholds, values, strict=True)}
        if sizes != {(nodes, nodes, leaves)} or not all(stored["values"] for stored in groups):
            raise ValueError(f"a tree must have {nodes} nodes and {leaves} leaves; fit them again")
        counts = [len(stored["values"]) for stored in groups]
        exact = np.rint(np.array(values, np.float64) * _UNIT) / _UNIT
        return cls(
            np.array([[place[name] for name in tree] for tree in features], np.intp),
            np.array([[np.inf if at is None else at for at in tree] for tree in thresholds], np.float64),
            exact[:, [_leaf(byte) for byte in range(256)]].ravel(),
            np.arange(len(values)) * 256,
            np.cumsum([0, *counts[:-1]]),
        )

    def predict(self, features: Floats) -> Floats:
        """Return the sum of each group of trees for one vector of features, which are rounded to `DECIMALS`."""
        right = np.packbits(features.take(self.features) > self.thresholds, axis=1)
        return np.add.reduceat(self.values.take(self.starts + right[:, 0]), self.groups)


def _leaf(byte: int) -> int:
    node = 0
    for _ in range(DEPTH):
        node = 2 * node + 1 + (byte >> (7 - node) & 1)
    return node - (2**DEPTH - 1)
