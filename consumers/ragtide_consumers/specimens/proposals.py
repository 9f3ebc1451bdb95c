"""Bounds on the specimens that a worker proposes: the worst values lately, and a number a minute. No clock, no I/O."""

from bisect import insort
from math import inf
from typing import Final

WINDOW_S: Final = 3600.0
"""Seconds for which a value is among the worst lately; so a new fall is noticed beside older, worse values."""

AGAIN_S: Final = 6.0
"""Seconds after which a value that equals the least bad of the worst takes its place: recent ones are better."""


class WorstLately:
    """The worst values of the last hour of one metric.

    Of n values in a random order it proposes about `most * log(n / most)` an hour, and ten a minute of equal values.

    Args:
        most: number of the worst values.

    >>> lately = WorstLately(1)
    >>> [lately.proposes(value, 0.0) for value in (0.5, 0.4, 0.5, 0.6)]
    [True, False, False, True]
    """

    __slots__ = ("_kept", "_most", "_oldest", "floor", "until")

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[float, float]] = []
        """Value and time, the least bad and oldest first."""
        self._oldest = inf
        self.floor = -inf
        """A lower value is not proposed before `until`."""
        self.until = inf
        """Time at which the first of the worst is an hour old."""

    def proposes(self, value: float, now: float) -> bool:
        """Return whether a value is among the worst; then it is one of them.

        Args:
            value: larger is worse.
            now: seconds that only grow.
        """
        if now - self._oldest >= WINDOW_S:
            self._kept = [one for one in self._kept if now - one[1] < WINDOW_S]
            self._oldest = min((time for _, time in self._kept), default=inf)
            self.until = self._oldest + WINDOW_S
        if len(self._kept) >= self._most:
            least, at = self._kept[0]
            if value < least or (value == least and now - at < AGAIN_S):
                return False
            del self._kept[0]
        insort(self._kept, (value, now))
        self._oldest = min(self._oldest, now)
        self.until = self._oldest + WINDOW_S
        self.floor = self._kept[0][0] if len(self._kept) >= self._most else -inf
        return True


class PerMinute:
    """At most a number of proposals in each minute.

    Args:
        most: number of proposals.

    >>> two = PerMinute(2)
    >>> [two.proposes(now) for now in (0.0, 1.0, 2.0, 60.0)]
    [True, True, False, True]
    """

    __slots__ = ("_count", "_most", "_since")

    def __init__(self, most: int) -> None:
        self._most = most
        self._since = -inf
        self._count = 0

    def proposes(self, now: float) -> bool:
        """Return whether one more fits into the minute; then it counts."""
        if now - self._since >= 60.0:
            self._since, self._count = now, 0
        self._count += 1
        return self._count <= self._most
