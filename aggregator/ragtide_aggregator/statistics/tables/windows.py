"""Windows in event time, in whole milliseconds; whoever reads one imports no NumPy. No clock."""

import re
from dataclasses import dataclass
from typing import Final

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PATTERN: Final = re.compile(r"(\d+)([smhd])(?:/(\d+)([smhd]))?")

LONGEST_MS: Final = 36_500 * _UNITS["d"]
"""Milliseconds of the longest window; its ends are valid dates for any time that an event may have."""


@dataclass(frozen=True, slots=True)
class Window:
    """A tumbling window, or a sliding window, whose step is smaller than its length."""

    name: str
    """Text of the setting: `1h` is tumbling, `24h/1h` covers 24 hours and moves every hour."""
    size_ms: int
    every_ms: int

    def covering(self, time_ms: int) -> tuple[int, int]:
        """Return start and end (exclusive), in milliseconds, of the window whose last step contains a time."""
        end = (time_ms // self.every_ms + 1) * self.every_ms
        return end - self.size_ms, end


def window(text: str) -> Window:
    """Return the window that a text such as `15m`, `1h` or `7d/1d` describes.

    Raises: ValueError if the text describes no window.

    >>> window("24h/1h").covering(90 * 60_000) == (-22 * 3_600_000, 2 * 3_600_000)
    True
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(f"window {text!r} is unknown: write 15m, 1h or 7d for tumbling, 24h/1h for sliding windows")
    size, unit, step, step_unit = match.groups()
    size_ms = int(size) * _UNITS[unit]
    every_ms = size_ms if step is None else int(step) * _UNITS[step_unit]
    if not (size_ms > 0 and every_ms > 0 and size_ms % every_ms == 0):
        raise ValueError(f"window {text!r}: the size must be a whole number of steps, such as 24h/1h")
    if size_ms > LONGEST_MS:
        raise ValueError(f"window {text!r} is longer than {LONGEST_MS // _UNITS['d']:,} days: choose a shorter one")
    return Window(text, size_ms, every_ms)
