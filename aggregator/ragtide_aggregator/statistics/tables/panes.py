"""The panes of which windows in event time consist, in whole milliseconds. No clock."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .windows import Window


@dataclass(frozen=True)
class Panes:
    """Divides event time so that every window is a whole number of panes; says how many panes are kept."""

    windows: tuple[Window, ...]
    lateness_ms: int

    @cached_property
    def pane_ms(self) -> int:
        """Length of a pane: the greatest common divisor of all steps; 0 without windows."""
        return gcd(*(window.every_ms for window in self.windows))

    @cached_property
    def kept(self) -> int:
        """Number of panes to keep: those of the longest window, of the window before it, and of the lateness."""
        longest = max((window.size_ms for window in self.windows), default=0)
        return -(-(2 * longest + self.lateness_ms) // self.pane_ms) + 1 if self.windows else 0

    def pane(self, time_ms: ArrayLike) -> NDArray[np.int64]:
        """Return the number of the pane of each time."""
        return np.asarray(time_ms, dtype=np.int64) // self.pane_ms

    def late(self, time_ms: ArrayLike, newest_ms: ArrayLike) -> NDArray[np.bool_]:
        """Return for each value whether its pane is closed: from `lateness_ms` after the pane's end on.

        Args:
            time_ms: times of the values.
            newest_ms: for each value the newest time before it.
        """
        return np.asarray(np.asarray(newest_ms) >= (self.pane(time_ms) + 1) * self.pane_ms + self.lateness_ms)
