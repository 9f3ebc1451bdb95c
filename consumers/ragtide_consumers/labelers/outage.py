"""Reports outages of a labeler: a warning at the start, a log line at the end, a failed health check in between."""

from collections.abc import Callable, Mapping
from time import monotonic

import structlog

from ragtide_runtime.telemetry.health import CheckResult
from ragtide_runtime.telemetry.log_limit import LogLimit

from .remote.errors import EndpointUnavailable, OverBudget

log = structlog.get_logger("ragtide.worker")


class LabelerOutage:
    """Whether a labeler is unavailable, and since when.

    Args:
        effect: the consequence for the interactions, in words.
        clock: monotonic seconds.
    """

    def __init__(self, labeler: str, effect: str, *, clock: Callable[[], float] = monotonic) -> None:
        self._labeler = labeler
        self._effect = effect
        self._clock = clock
        self._log_limit = LogLimit(clock=clock)
        self._since: float | None = None
        self._because = ""
        self._warned = False
        self._interactions = 0
        self._refused_at = 0.0
        self._is_remote = False

    def now(self) -> float:
        """Return the time by the clock of this outage, for `available`."""
        return self._clock()

    def unavailable(self, error: Exception) -> None:
        """Count an interaction for which the labeler was unavailable, and begin an outage if there is none."""
        self._because, self._refused_at = str(error), self._clock()
        self._is_remote = isinstance(error, EndpointUnavailable | OverBudget)
        self._interactions += 1
        if self._since is not None:
            return
        self._since = self._clock()
        self._warned = bool(self._log_limit.due())
        if self._warned:
            log.warning("the labeler is unavailable", labeler=self._labeler, effect=self._effect, because=self._because)

    def available(self, asked_at: float, counters: Mapping[str, int]) -> None:
        """End the outage, because the labeler labeled an interaction, unless that is no proof.

        An answer proves nothing if the labeler was asked before its last refusal, or if a labeler that calls an
        endpoint found the answer in its cache.

        Args:
            asked_at: time at which the labeler was asked (`now`).
        """
        if self._since is None:
            return
        called = any(name.endswith("_calls") and count for name, count in counters.items())
        if asked_at < self._refused_at or (self._is_remote and not called):
            return
        if self._warned:
            log.info(
                "the labeler is available again",
                labeler=self._labeler,
                after_s=round(self._clock() - self._since, 1),
                interactions=self._interactions,
            )
        self._since, self._interactions = None, 0

    def alive(self, redis_since: float | None) -> CheckResult:
        """Return a passed check, because a restart would not help."""
        del redis_since
        return CheckResult(f"labeler {self._labeler}", True, "waits for nothing" if self._since is None else "waits")

    def ready(self) -> CheckResult:
        """Return whether the labeler labels now."""
        name = f"labeler {self._labeler}"
        if self._since is None:
            return CheckResult(name, True, "available")
        return CheckResult(
            name, False, f"unavailable for {self._clock() - self._since:.0f} s, {self._effect}: {self._because}"
        )
