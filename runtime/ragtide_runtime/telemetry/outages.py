"""Logs of outages: one line at the start and one at the end, for any number of loops and any duration."""

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Final
from weakref import WeakKeyDictionary

import structlog

FORGOTTEN_S: Final = 30.0
"""Seconds after which a failed attempt that was not repeated no longer counts, because its loop has ended."""

AFTERSHOCK_S: Final = 5.0
"""Seconds after an outage in which a failure is no new outage yet, as a loop may still hold a dead connection."""

log = structlog.get_logger("ragtide.outage")


class Outage:
    """Shared knowledge of several loops of a role about one dependency, such as Redis.

    The first attempt that fails begins the outage. It ends when every attempt that failed has succeeded again. A
    failure within `AFTERSHOCK_S` of the end is logged only if it lasts longer than that.

    Args:
        subject: the dependency, in the words of the log.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, subject: str, *, clock: Callable[[], float] = monotonic) -> None:
        self._subject = subject
        self._clock = clock
        self._lock = threading.Lock()
        self._failing: dict[str, float] = {}
        self._began: float | None = None
        self._failures = 0
        self._logged = False
        self._ended: float | None = None

    def attempt(self, doing: str) -> "Attempt":
        """Return a loop's part in the outage; `doing` describes the work for which the loop needs the dependency."""
        return Attempt(self, doing)

    def failed(self, doing: str, error: BaseException, **fields: Any) -> None:
        """Take note of a failure, and log the first one."""
        with self._lock:
            now = self._clock()
            self._failing[doing] = now
            self._failures += 1
            if self._began is None:
                self._began = now
            first = not self._logged and (self._ended is None or now - self._ended >= AFTERSHOCK_S)
            self._logged = self._logged or first
        if first:
            event = f"{self._subject} failed; it is tried again until it answers, and no more is logged meanwhile"
            log.warning(event, doing=doing, error=str(error) or type(error).__name__, **fields)

    def succeeded(self, doing: str) -> None:
        """Take note of a success, and log the end of the outage."""
        if self._began is None:  # nearly always; a wrong guess is mended by the next success
            return
        with self._lock:
            now = self._clock()
            self._failing.pop(doing, None)
            if self._began is None or any(now - at < FORGOTTEN_S for at in self._failing.values()):
                return
            lasted_s, failures, logged = now - self._began, self._failures, self._logged
            self._began, self._failures, self._logged = None, 0, False
            self._failing.clear()
            self._ended = now if logged else self._ended
        if logged:
            log.warning(f"{self._subject} answers again", lasted_s=round(lasted_s, 1), failed_attempts=failures)


class Attempt:
    """A loop's part in an outage: the loop reports after each round whether the round failed or succeeded."""

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
    """Return the outage of the Redis behind a client; all that use the client share it."""
    outage = _OF_CLIENT.get(client)
    if outage is None:
        outage = _OF_CLIENT[client] = Outage("Redis")
    return outage
