"""The speed of a replay: the recorded pace, a multiple of it, or as fast as possible. No I/O."""

import re
from datetime import datetime
from typing import Final

from ragtide_runtime.errors import ConfigurationError

_TIMES: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)x")


def speed(text: str) -> float | None:
    """Return the recorded seconds per second that a text such as `original`, `10x` or `max` describes; None for `max`.

    Raises:
        ConfigurationError: the text describes no speed.

    >>> speed("original"), speed("0.5x"), speed("max")
    (1.0, 0.5, None)
    """
    if text == "max":
        return None
    if text == "original":
        return 1.0
    match = _TIMES.fullmatch(text)
    if match is None or float(match[1]) == 0:
        raise ConfigurationError(f"--speed {text!r} is unknown: use original, max, or how many times faster, as in 10x")
    return float(match[1])


class ReplayPace:
    """Keeps the recorded pace: an entry is due at its recorded time after the first entry, divided by the speed.

    An entry with an earlier time than the entry before it is due at once.

    Args:
        speed: recorded seconds per second; None for as fast as possible.
    """

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._first: tuple[datetime, float] | None = None

    def wait_s(self, time: datetime, now: float) -> float:
        """Return the seconds until an entry is due; 0 if it is due.

        Args:
            now: seconds of a monotonic clock.
        """
        if self._speed is None:
            return 0.0
        if self._first is None:
            self._first = time, now
        began, started = self._first
        return max(started + (time - began).total_seconds() / self._speed - now, 0.0)
