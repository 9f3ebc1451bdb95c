"""The order in which values of several batches arrived: by part of the whole batch. No state."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..statistics.tables.batches import Rows
from .rule_values import Arrived


class ArrivalOrder:
    """Values of several batches in the order of their arrival, each with every detector of its key.

    Attributes:
        arrived: the batches.
        places: for each batch, the places of its values in the order of all values.
        looks: place of the value of each step, not falling; shape (steps,). So are the following.
        batches: number of its batch.
        values: position of the value in its batch.
        detectors: index of the detector.
        hours: in which the value counts.
    """

    def __init__(self, arrived: Sequence[Arrived], pairs: Sequence[tuple[Rows, Rows]]) -> None:
        self.arrived = arrived
        parts = np.concatenate([one.parts for one in arrived])
        edges = np.cumsum([0, *(one.parts.size for one in arrived)])
        # The values that an event adds at once come before the clusters that it closes.
        place = np.empty(parts.size, dtype=np.intp)
        place[np.argsort(parts, kind="stable")] = np.arange(parts.size)
        self.places = [place[start:end] for start, end in pairwise(edges.tolist())]
        looks = np.concatenate([mine[value_of] for mine, (value_of, _) in zip(self.places, pairs, strict=True)])
        order = np.argsort(looks, kind="stable")
        self.looks = looks[order]
        sizes = [value_of.size for value_of, _ in pairs]
        self.batches = np.repeat(np.arange(len(arrived)), sizes)[order]
        self.values = np.concatenate([value_of for value_of, _ in pairs])[order]
        hours = [one.values.hours[value_of] for one, (value_of, _) in zip(arrived, pairs, strict=True)]
        self.hours = np.concatenate(hours)[order]
        self.detectors = np.concatenate([detector_of for _, detector_of in pairs])[order]

    def __len__(self) -> int:
        return sum(mine.size for mine in self.places)

    def steps(self, start: int, stop: int) -> Rows:
        """Return the steps of the values from one place up to another (exclusive)."""
        first, end = np.searchsorted(self.looks, [start, stop]).tolist()
        return np.arange(first, end)
