"""Evaluates boosted regression trees of depth 3: comparisons and one sum in order, so equal input gives equal bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from .overlap import Floats, Indices

DEPTH: Final = 3
"""Comparisons from the root of a tree to its leaf."""

DECIMALS: Final = 9
"""Decimals to which features are rounded before they are compared, so that a last bit decides nothing."""


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Trees whose sum predicts a number. Each is complete: node k has the children 2k + 1 and 2k + 2."""

    features: Indices
    """By tree and inner node: position of the feature that is compared."""
    thresholds: Floats
    """By tree and inner node: the left child follows if the feature is at most this."""
    values: Floats
    """By tree and leaf, from left to right: summand of the prediction."""

    @classmethod
    def read(cls, stored: Mapping[str, Any], names: Sequence[str]) -> Self:
        """Return trees from their stored form, in which features have names.

        Args:
            stored: `features` (names), `thresholds` (null for a node without a choice) and `values`, by tree.
            names: of all features, in the order of the vector that is predicted from.

        Raises:
            ValueError: a stored feature has none of these names, or a tree is not complete.
        """
        place = {name: number for number, name in enumerate(names)}
        unknown = sorted({name for tree in stored["features"] for name in tree} - place.keys())
        if unknown:
            raise ValueError(f"the trees compare the unknown feature {unknown[0]!r}; fit them again")
        trees = cls(
            np.array([[place[name] for name in tree] for tree in stored["features"]], np.intp),
            np.array([[np.inf if at is None else at for at in tree] for tree in stored["thresholds"]], np.float64),
            np.array(stored["values"], np.float64),
        )
        nodes, leaves = 2**DEPTH - 1, 2**DEPTH
        shapes = [part.shape[1:] for part in (trees.features, trees.thresholds, trees.values)]
        if shapes != [(nodes,), (nodes,), (leaves,)]:
            raise ValueError(f"a tree must have {nodes} nodes and {leaves} leaves, but these have {shapes}")
        return trees

    def predict(self, features: Floats) -> float:
        """Return the sum of all trees for one vector of features."""
        right = (np.round(features, DECIMALS).take(self.features) > self.thresholds).ravel()
        first = np.arange(0, right.size, 2**DEPTH - 1)
        node = right.take(first) + 1
        for _ in range(DEPTH - 1):
            node = 2 * node + 1 + right.take(first + node)
        leaf = np.arange(0, self.values.size, 2**DEPTH) + node - (2**DEPTH - 1)
        return float(sum(self.values.take(leaf).tolist()))
