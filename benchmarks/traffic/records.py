"""First alarms of a score for every threshold at once, so that a detector is tuned without running it again."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .stream import Codes, Floats

_HALVINGS = 60


@dataclass(frozen=True)
class Records:
    """Where each run's score was higher than ever before: what it takes to know its first alarm at any threshold."""

    positions: list[Codes]
    """Per run, the positions of its records, rising."""
    values: list[Floats]
    """Per run, the scores there, rising."""
    n: int
    """Length of each run."""

    @classmethod
    def of(cls, scores: Floats) -> "Records":
        """Return the records of scores of the shape (runs, n); minus infinity is a position without a score."""
        highest = np.maximum.accumulate(scores, axis=1)
        before = np.concatenate([np.full((len(scores), 1), -np.inf), highest[:, :-1]], axis=1)
        rises = highest > before
        positions = [np.flatnonzero(run) for run in rises]
        return cls(positions, [run[at] for run, at in zip(highest, positions, strict=True)], scores.shape[1])

    @classmethod
    def joined(cls, parts: Iterable["Records"]) -> "Records":
        """Return the records of all runs of several parts of one length."""
        every = list(parts)
        return cls(
            [at for part in every for at in part.positions], [of for part in every for of in part.values], every[0].n
        )

    def first_alarms(self, threshold: float) -> Codes:
        """Return the position of each run's first score above the threshold; -1 for none."""
        found = []
        for positions, values in zip(self.positions, self.values, strict=True):
            place = int(np.searchsorted(values, threshold, side="right"))
            found.append(int(positions[place]) if place < positions.size else -1)
        return np.array(found, dtype=np.int64)

    def run_length(self, threshold: float) -> float:
        """Return the mean number of values until the first alarm; a run without one counts with its length."""
        return float(np.mean(run_lengths(self.first_alarms(threshold), self.n)))

    def threshold_for(self, run_length: float) -> float:
        """Return the lowest threshold, to rounding, at which the run length is at least the one asked for.

        Raises:
            ValueError: no threshold has that run length, since even without alarms it is below.
        """
        if run_length > self.n:
            raise ValueError(f"runs of {self.n} values have no mean run length of {run_length:g}")
        low = min((float(values[0]) for values in self.values if values.size), default=0.0) - 1.0
        high = max((float(values[-1]) for values in self.values if values.size), default=0.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.run_length(middle) >= run_length else (middle, high)
        return high


def run_lengths(first_alarms: Codes, n: int) -> Codes:
    """Return how many values each run had at its first alarm; n for a run without one."""
    return np.where(first_alarms < 0, n, first_alarms + 1)
