"""Simulated traffic as arrays: one run a row, one interaction a column, in the order in which scores arrive."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Schedule:
    """The times of interactions and the clusters to which they belong; every array has the shape (runs, n).

    Codes are whole numbers from 0, and each run has codes of its own.
    """

    time_s: Floats
    """Time of the answer in seconds since the beginning of the run."""
    session: Codes
    turn: Codes
    """Number of the interaction within its session, from 0."""
    user: Codes
    batch: Codes
    """Interactions that one customer sent together."""


@dataclass(frozen=True)
class Traffic:
    """Runs of interactions with their scores; every array has the shape (runs, n)."""

    time_s: Floats
    """Time of the answer in seconds since the beginning of the run."""
    labeled_s: Floats
    """Time of the score; columns are in this order."""
    value: Floats
    """Score in [0, 1], as the judge gave it."""
    truth: Floats
    """Score in [0, 1] that a judge without mistakes would give."""
    mean: Floats
    """Expected value, given the times, over luck, segments and the judge's mistakes."""
    session: Codes
    turn: Codes
    user: Codes
    batch: Codes
    segments: Mapping[str, Codes]
    """Code of each segment's value, by the segment's name."""

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.value)

    @property
    def n(self) -> int:
        """Number of interactions of each run."""
        return int(self.value.shape[1])

    def columns(self, chosen: Any) -> "Traffic":
        """Return the traffic with some columns of every run: a slice, or column numbers of the shape (runs, k)."""

        def cut(array: NDArray[Any]) -> NDArray[Any]:
            if isinstance(chosen, slice):
                return array[:, chosen]
            return np.take_along_axis(array, chosen, axis=1)

        arrays = {field.name: cut(getattr(self, field.name)) for field in fields(self) if field.name != "segments"}
        return replace(self, **arrays, segments={name: cut(codes) for name, codes in self.segments.items()})

    def clusters(self, by: str) -> Codes:
        """Return the codes of the clusters by `session`, `user`, `batch`, the name of a segment, or `blocks`: one."""
        if by == "blocks":
            return np.zeros(self.value.shape, dtype=np.int64)
        if by in self.segments:
            return self.segments[by]
        found: Codes = getattr(self, by)
        return found


def joined(parts: list[Traffic]) -> Traffic:
    """Return the runs of several parts as one."""
    names = [field.name for field in fields(Traffic) if field.name != "segments"]
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    segments = {name: np.concatenate([part.segments[name] for part in parts]) for name in parts[0].segments}
    return Traffic(**arrays, segments=segments)
