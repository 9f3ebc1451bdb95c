"""A circuit breaker: it stops calls to an endpoint that keeps failing, and lets a single call try after a pause.

An answer without labels is a failure too, because an endpoint may answer every prompt with prose or a login page.
"""

from collections.abc import Callable
from time import monotonic

from ..processes.waiting import Backoff

LONGEST_PAUSE_S = 300.0
"""Most seconds for which calls stop, by default."""


class Breaker:
    """Closed while calls succeed; open for a pause after failures in a row; then half open, for one call at a time.

    Args:
        failures: failures in a row that open it.
        pause_s: first pause; it doubles each time the trying call fails.
        longest_s: longest pause.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        failures: int,
        pause_s: float,
        longest_s: float = LONGEST_PAUSE_S,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._failures = failures
        self._backoff = Backoff(pause_s, max(pause_s, longest_s), random_share=0.0)
        self._clock = clock
        self._in_a_row = 0
        self._open_until: float | None = None
        self._trying = False

    @property
    def is_open(self) -> bool:
        """Whether calls are stopped."""
        return self._open_until is not None

    @property
    def resumes_in_s(self) -> float:
        """Seconds until the next call may try; at least a second while a call tries."""
        if self._open_until is None:
            return 0.0
        return max(self._open_until - self._clock(), 1.0 if self._trying else 0.0)

    def admits(self) -> bool:
        """Return whether a call may be made now; an open breaker admits one call, which must report its outcome."""
        if self._open_until is None:
            return True
        if self._trying or self._clock() < self._open_until:
            return False
        self._trying = True
        return True

    def succeeded(self) -> None:
        """Report an answer."""
        self._in_a_row = 0
        if self._open_until is not None:
            self._open_until, self._trying = None, False
            self._backoff.succeeded()

    def failed(self, *, at_once: bool = False) -> bool:
        """Report a failure, and return whether it opened the breaker; `at_once` opens it by a single failure."""
        self._in_a_row += 1
        if self._open_until is not None:
            if not self._trying:
                return False  # a call that was made before the breaker opened
        elif not at_once and self._in_a_row < self._failures:
            return False
        self._open_until, self._trying = self._clock() + self._backoff.pause_s(), False
        return True

    def abandoned(self) -> None:
        """Report that the trying call ended without an outcome, for example because it was cancelled."""
        self._trying = False
