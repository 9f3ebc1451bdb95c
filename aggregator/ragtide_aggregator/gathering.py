"""What was added to a state and is not worked on yet: many events become a few arrays."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import MetricEvent

from .observations import Pair
from .statistics.batches import Floats, Rows


class Kind(Enum):
    """What an event is to the state."""

    SCORED = "scored"
    JUDGED = "judged"
    """The judge's part of it."""
    GRADED = "graded"
    """Gold scores that came later."""


@dataclass(frozen=True, slots=True)
class Part:
    """An event, or a part of it, and when it was."""

    event: MetricEvent
    n_values: int
    time_ms: int
    processed_ms: int
    late: bool
    out_of_order: bool


class Queue:
    """Parts in the order in which they came, with their values and absent metrics."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.pairs: list[tuple[int, Pair]] = []
        self._rows: list[int] = []
        self._values: list[float] = []
        self._absent: list[int] = []
        self._absent_of: list[int] = []

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self._values)

    def add(self, part: Part, rows: list[int], values: list[float], absent: list[int]) -> None:
        """Add a part, the rows of its values, and those of the metrics that are absent."""
        if absent:
            self._absent += absent
            self._absent_of += [len(self.parts)] * len(absent)
        self.parts.append(part)
        self._rows += rows
        self._values += values

    def gathered(self) -> "Gathered":
        """Return what is in it as arrays."""
        parts = self.parts
        return Gathered(
            parts=parts,
            rows=np.array(self._rows, dtype=np.intp),
            values=np.array(self._values, dtype=np.float64),
            part_of=np.repeat(np.arange(len(parts)), [part.n_values for part in parts]),
            absent=np.array(self._absent, dtype=np.intp),
            absent_of=np.array(self._absent_of, dtype=np.intp),
            times_ms=np.array([part.time_ms for part in parts], dtype=np.int64),
            processed_ms=np.array([part.processed_ms for part in parts], dtype=np.int64),
            late=np.array([part.late for part in parts], dtype=bool),
            out_of_order=np.array([part.out_of_order for part in parts], dtype=bool),
        )


@dataclass(frozen=True, slots=True)
class Gathered:
    """A queue as arrays: over values, over absent metrics, and over parts."""

    parts: list[Part]
    rows: Rows
    """Row of each value."""
    values: Floats
    part_of: Rows
    """Place of each value's part."""
    absent: Rows
    """Row of each absent metric."""
    absent_of: Rows
    """Place of its part."""
    times_ms: NDArray[np.int64]
    """Event time of each part; so are the rest."""
    processed_ms: NDArray[np.int64]
    late: NDArray[np.bool_]
    out_of_order: NDArray[np.bool_]
