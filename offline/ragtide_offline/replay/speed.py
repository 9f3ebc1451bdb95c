"""The speed of a replay: the recorded pace, a multiple of it, or as fast as possible. No I/O."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ragtide_runtime.errors import ConfigurationError

_TIMES: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)x")


@dataclass(frozen=True, slots=True)
class Speed:
    """Recorded seconds per second; None is as fast as possible."""

    factor: float | None = None


def speed(text: str) -> Speed:
    """Return the speed that a text such as `original`, `10x` or `max` describes.

    Raises:
        ConfigurationError: the text describes no speed.

    >>> speed("original"), speed("0.5x"), speed("max")
    (Speed(factor=1.0), Speed(factor=0.5), Speed(factor=None))
    """
    if text == "max":
        return Speed()
    if text == "original":
        return Speed(1.0)
    found = _TIMES.fullmatch(text)
    if found is None or float(found[1]) == 0:
        raise ConfigurationError(f"--speed {text!r} is unknown: use original, max, or how many times faster, as in 10x")
    return Speed(float(found[1]))


class ReplayPace:
    """Keeps the recorded pace: an entry is due at its recorded time after the first entry, divided by the speed.

    An entry with an earlier time than the entry before it is due at once.
    """

    def __init__(self, speed: Speed) -> None:
        self._factor = speed.factor
        self._first: tuple[datetime, float] | None = None

    def wait_s(self, time: datetime, now: float) -> float:
        """Return the seconds until an entry is due; 0 if it is due.

        Args:
            now: seconds of a monotonic clock.
        """
        if self._factor is None:
            return 0.0
        if self._first is None:
            self._first = time, now
        began, started = self._first
        return max(started + (time - began).total_seconds() / self._factor - now, 0.0)
