"""Limits log lines that may come with every interaction: one line of a kind a minute, with a count of the others."""

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, Final

EVERY_S: Final = 60.0
"""Seconds between two lines of one kind."""

MOST_KINDS: Final = 1000
"""Most kinds that are remembered. At the limit all kinds are forgotten, so some lines are logged again early."""


class LogLimit:
    """Lets one event of each kind pass in `every_s`, and counts the events in between.

    >>> limit = LogLimit()
    >>> limit.due(), limit.due()
    (1, 0)

    Args:
        every_s: seconds between two events of one kind.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, every_s: float = EVERY_S, *, clock: Callable[[], float] = monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._last: dict[Hashable, tuple[float, int]] = {}

    def due(self, kind: Hashable = None) -> int:
        """Return the number of events of a kind since the last due event, including this one; 0 if it is not due."""
        now = self._clock()
        last_s, count = self._last.get(kind, (float("-inf"), 0))
        if now - last_s < self._every_s:
            self._last[kind] = (last_s, count + 1)
            return 0
        if len(self._last) >= MOST_KINDS:
            self._last.clear()
        self._last[kind] = (now, 0)
        return count + 1

    def warning(self, log: Any, kind: Hashable, event: str, **fields: Any) -> None:
        """Log a warning if it is due, with the number of warnings of its kind that were not logged before it."""
        if count := self.due(kind):
            more = {"not_logged_before": count - 1} if count > 1 else {}
            log.warning(event, **fields, **more)
