"""Limits log lines that repeat: so many of a kind a minute, then a count of the others."""

from collections.abc import Callable, Hashable, Iterator
from time import monotonic
from typing import Any, Final

EVERY_S: Final = 60.0
"""Seconds between two lines of one kind."""

MOST_KINDS: Final = 1000
"""Most kinds that are remembered. At the limit all kinds are forgotten, so some lines are logged again early."""


class LogLimit:
    """Lets `most` events of each kind pass in `every_s`, and counts the events in between.

    >>> limit = LogLimit()
    >>> limit.due(), limit.due()
    (1, 0)

    Args:
        every_s: seconds in which `most` events of one kind pass.
        most: 1 for events that may come with every interaction.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, every_s: float = EVERY_S, *, most: int = 1, clock: Callable[[], float] = monotonic) -> None:
        self._every_s = every_s
        self._most = most
        self._clock = clock
        self._kinds: dict[Hashable, tuple[float, int, int]] = {}
        """By kind: its first event of this time, how many passed since, and how many did not."""

    def due(self, kind: Hashable = None) -> int:
        """Return the number of events of a kind since the last due event, including this one; 0 if it is not due."""
        now = self._clock()
        began, passed, held = self._kinds.get(kind, (now, 0, 0))
        if now - began >= self._every_s:
            began, passed = now, 0
        if passed == self._most:
            self._kinds[kind] = (began, passed, held + 1)
            return 0
        if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] = (began, passed + 1, 0)
        return held + 1

    def ended(self) -> Iterator[tuple[Hashable, int]]:
        """Yield each kind whose time is over, with the number of its events that did not pass, and forget it."""
        now = self._clock()
        over = [kind for kind, (began, _, _) in self._kinds.items() if now - began >= self._every_s]
        for kind in over:
            *_, held = self._kinds.pop(kind, (0, 0, 0))
            if held:
                yield kind, held

    def warning(self, log: Any, kind: Hashable, event: str, **fields: Any) -> None:
        """Log a warning if it is due, with the number of warnings of its kind that were not logged before it."""
        if count := self.due(kind):
            more = {"not_logged_before": count - 1} if count > 1 else {}
            log.warning(event, **fields, **more)
