"""Windows in event time, made of panes, in whole milliseconds. No clock."""

import re
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PATTERN: Final = re.compile(r"(\d+)([smhd])(?:/(\d+)([smhd]))?")

LONGEST_MS: Final = 36_500 * _UNITS["d"]
"""Milliseconds of the longest window: from any time on the wire it reaches to a time that a calendar has."""

ALL_TIME: Final = "all"
"""Name of the window that holds everything."""


@dataclass(frozen=True, slots=True)
class Window:
    """A tumbling window, or a sliding one that moves by a smaller step than it is long."""

    name: str
    """As it was written: `1h` is tumbling, `24h/1h` covers 24 hours and moves every hour."""
    size_ms: int
    every_ms: int

    def covering(self, time_ms: int) -> tuple[int, int]:
        """Return start and end, in milliseconds, of the window whose last step holds a time; the end is not in it."""
        end = (time_ms // self.every_ms + 1) * self.every_ms
        return end - self.size_ms, end


def window(text: str) -> Window:
    """Return the window that a text such as `15m`, `1h` or `7d/1d` names.

    Raises: ValueError if it names none; the message says how.

    >>> window("24h/1h").covering(90 * 60_000) == (-22 * 3_600_000, 2 * 3_600_000)
    True
    """
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise ValueError(f"window {text!r} is unknown: write 15m, 1h or 7d for tumbling ones, 24h/1h for sliding ones")
    size, unit, step, step_unit = found.groups()
    size_ms = int(size) * _UNITS[unit]
    every_ms = size_ms if step is None else int(step) * _UNITS[step_unit]
    if not (size_ms > 0 and every_ms > 0 and size_ms % every_ms == 0):
        raise ValueError(f"window {text!r}: the size is to be a whole number of steps, such as 24h/1h")
    if size_ms > LONGEST_MS:
        raise ValueError(f"window {text!r} is longer than {LONGEST_MS // _UNITS['d']:,} days: choose a shorter one")
    return Window(text, size_ms, every_ms)


@dataclass(frozen=True)
class Panes:
    """How event time is cut so that every window is a whole number of panes, and how long a pane is kept."""

    windows: tuple[Window, ...]
    lateness_ms: int

    @cached_property
    def pane_ms(self) -> int:
        """Length of a pane: the longest that fits every step; 0 without windows."""
        return gcd(*(window.every_ms for window in self.windows))

    @cached_property
    def kept(self) -> int:
        """Number of panes kept: twice the longest window, to compare it with the one before, and the lateness."""
        longest = max((window.size_ms for window in self.windows), default=0)
        return -(-(2 * longest + self.lateness_ms) // self.pane_ms) + 1 if self.windows else 0

    def pane(self, time_ms: ArrayLike) -> NDArray[np.int64]:
        """Return the numbers of the panes that hold times."""
        return np.asarray(time_ms, dtype=np.int64) // self.pane_ms

    def late(self, time_ms: ArrayLike, newest_ms: ArrayLike) -> NDArray[np.bool_]:
        """Return whether values come after their pane was closed: `lateness_ms` after the pane's end.

        Args:
            time_ms: times of the values.
            newest_ms: time of the newest value that came before each.
        """
        return np.asarray(np.asarray(newest_ms) >= (self.pane(time_ms) + 1) * self.pane_ms + self.lateness_ms)
