"""Logs each outage with one line at its start and one at its end, for any number of loops and any duration.

A wrong setting that shows later has a line of its own.
"""

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Final
from weakref import WeakKeyDictionary

import structlog

from ..redis.failures import explained, is_misconfigured

FORGOTTEN_S: Final = 30.0
"""Seconds after which a failed attempt no longer counts if it was not repeated, because its loop has ended."""

AFTERSHOCK_S: Final = 5.0
"""Seconds after an outage in which a failure begins no new outage, because a loop may still hold a dead connection."""

log = structlog.get_logger("ragtide.outage")


class Outage:
    """The outages of one dependency, such as Redis, as several loops of a role see them.

    The first attempt that fails begins an outage. The outage ends when every attempt that failed has succeeded again. A
    failure within `AFTERSHOCK_S` of the end is logged only if it lasts longer than that. A wrong setting, such as a
    changed password, is logged once in an outage that began with another failure, because waiting does not help.

    Args:
        subject: name of the dependency in the log.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, subject: str, *, clock: Callable[[], float] = monotonic) -> None:
        self._subject = subject
        self._clock = clock
        self._lock = threading.Lock()
        self._failing: dict[str, float] = {}
        self._began: float | None = None
        self._failures = 0
        self._logged = self._blamed = False
        self._ended: float | None = None

    def attempt(self, doing: str) -> "Attempt":
        """Return the part of one loop, whose work with the dependency is `doing`."""
        return Attempt(self, doing)

    def failed(self, doing: str, error: BaseException, **fields: Any) -> None:
        """Count a failure, and log the first one of an outage."""
        with self._lock:
            now = self._clock()
            self._failing[doing] = now
            self._failures += 1
            if self._began is None:
                self._began = now
            first = not self._logged and (self._ended is None or now - self._ended >= AFTERSHOCK_S)
            blamed = not self._blamed and is_misconfigured(error) and (first or self._logged)
            self._logged, self._blamed = self._logged or first, self._blamed or blamed
        if first or blamed:
            event = f"{self._subject} failed: retrying until it answers, and logging no further failures until then"
            log.warning(event, doing=doing, error=explained(error), **fields)

    def succeeded(self, doing: str) -> None:
        """Report a success, and log the end of an outage."""
        if self._began is None:  # the usual case needs no lock; the next success corrects a race
            return
        with self._lock:
            now = self._clock()
            self._failing.pop(doing, None)
            if self._began is None or any(now - at < FORGOTTEN_S for at in self._failing.values()):
                return
            lasted_s, failures, logged = now - self._began, self._failures, self._logged
            self._began, self._failures, self._logged, self._blamed = None, 0, False, False
            self._failing.clear()
            self._ended = now if logged else self._ended
        if logged:
            log.warning(f"{self._subject} answers again", lasted_s=round(lasted_s, 1), failed_attempts=failures)


class Attempt:
    """One loop's reports to an outage: after each round, whether the round failed or succeeded."""

    def __init__(self, outage: Outage, doing: str) -> None:
        self._outage = outage
        self._doing = doing

    def failed(self, error: BaseException, **fields: Any) -> None:
        """Report that a round failed."""
        self._outage.failed(self._doing, error, **fields)

    def succeeded(self) -> None:
        """Report that a round succeeded."""
        self._outage.succeeded(self._doing)


_OF_CLIENT: Final[WeakKeyDictionary[Any, Outage]] = WeakKeyDictionary()


def redis_outage(client: Any) -> Outage:
    """Return the outage of the Redis behind a client; all users of the client share it."""
    outage = _OF_CLIENT.get(client)
    if outage is None:
        outage = _OF_CLIENT[client] = Outage("Redis")
    return outage
