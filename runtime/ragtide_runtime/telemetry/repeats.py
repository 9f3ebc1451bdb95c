"""Events that may come with every interaction: the first of a kind is logged, the others of that minute are counted."""

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, Final

EVERY_S: Final = 60.0
"""Seconds between two lines of one kind."""

MOST_KINDS: Final = 1000
"""Most kinds that are remembered. At the limit all are forgotten, and some lines are logged again."""


class Repeats:
    """Logs an event of each kind at most once in `every_s`, with the number of those in between.

    Args:
        every_s: seconds between two lines of one kind.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, every_s: float = EVERY_S, *, clock: Callable[[], float] = monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._said: dict[Hashable, tuple[float, int]] = {}

    def warning(self, log: Any, kind: Hashable, event: str, **fields: Any) -> None:
        """Log a warning, or count it if one of its kind was logged a moment ago."""
        now = self._clock()
        said = self._said.get(kind)
        if said is not None and now - said[0] < self._every_s:
            self._said[kind] = (said[0], said[1] + 1)
            return
        if len(self._said) >= MOST_KINDS:
            self._said.clear()
        self._said[kind] = (now, 0)
        more = {} if said is None or not said[1] else {"not_logged_before": said[1]}
        log.warning(event, **fields, **more)
