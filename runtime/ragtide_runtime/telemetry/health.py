"""Liveness and readiness of a role, from the heartbeats of its loops and the answers of Redis.

A role is alive if a restart would not help: the event loop answers, and no loop is stuck. A loop is stuck if it had no
heartbeat for `SILENT_S` while Redis answered. A loop that waits for work is not stuck, nor a loop that retries because
Redis or a judge is down. A role is ready if it does its work now: Redis answers, and the last turn of each loop
succeeded.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry

from .metric import Registry

SILENT_S: Final = 60.0
"""Seconds without a heartbeat after which a loop is stuck; twice the time a command may wait for a dead connection."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one health check."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The results of all health checks, and whether all of them passed."""

    checks: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON fields: the checks that failed, and the detail of every check."""
        return {
            "ok": self.ok,
            "missing": [f"{check.name}: {check.detail}" for check in self.checks if not check.ok],
            "checks": {check.name: check.detail for check in self.checks},
        }


class HealthCheck(Protocol):
    """A part of a role that reports its own liveness and readiness."""

    def alive(self, redis_since: float | None) -> CheckResult:
        """Return whether the part is not stuck.

        Args:
            redis_since: monotonic time since which Redis has always answered; None while it does not answer.
        """

    def ready(self) -> CheckResult:
        """Return whether the part does its work now."""


class Heartbeat:
    """The heartbeat of one loop.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, name: str, *, clock: Callable[[], float] = monotonic) -> None:
        self.name = name
        self._clock = clock
        self._last = clock()
        self._idle = False
        self._detail = "starting"
        self._failed = True

    def beat(self, doing: str) -> None:
        """Report a turn that succeeded."""
        self._last, self._detail, self._failed = self._clock(), doing, False

    def failed(self, detail: str) -> None:
        """Report a turn that failed and will be tried again."""
        self._last, self._detail, self._failed = self._clock(), detail, True

    @contextmanager
    def idle(self, waiting_for: str) -> Iterator[None]:
        """Mark the loop as idle for the body of a `with`: an idle loop may wait for any time."""
        self.beat(waiting_for)
        self._idle = True
        try:
            yield
        finally:
            self._idle = False
            self._last = self._clock()

    def alive(self, redis_since: float | None) -> CheckResult:
        """Return whether the loop is not stuck."""
        silent_s = 0.0 if self._idle or redis_since is None else self._clock() - max(self._last, redis_since)
        if silent_s < SILENT_S:
            return CheckResult(self.name, True, self._detail)
        return CheckResult(self.name, False, f"no heartbeat for {silent_s:.0f} s, last: {self._detail}")

    def ready(self) -> CheckResult:
        """Return whether the last turn succeeded."""
        return CheckResult(self.name, not self._failed, self._detail)


@dataclass(frozen=True, slots=True)
class ConditionCheck:
    """A health check by a condition that is evaluated for each report on readiness."""

    name: str
    holds: Callable[[], bool]
    otherwise: str
    """The detail of the result while the condition does not hold."""

    def alive(self, redis_since: float | None) -> CheckResult:
        """Return a passed check, because a condition cannot be stuck."""
        del redis_since
        return CheckResult(self.name, True, "not a loop")

    def ready(self) -> CheckResult:
        """Return whether the condition holds."""
        return CheckResult(self.name, True, "yes") if self.holds() else CheckResult(self.name, False, self.otherwise)


class Health:
    """The liveness and readiness of the roles of one process.

    Args:
        roles: which must report a check before the process is ready.
        clock: monotonic seconds.
    """

    def __init__(self, *roles: str, clock: Callable[[], float] = monotonic) -> None:
        self._checks: dict[str, list[HealthCheck]] = {role: [] for role in roles}
        self._clock = clock
        self._redis_since: float | None = None
        self._redis_detail = "not asked yet"

    @contextmanager
    def reporting(self, role: str, *checks: HealthCheck) -> Iterator[None]:
        """Include health checks of a role for the body of a `with`."""
        self._checks.setdefault(role, []).extend(checks)
        try:
            yield
        finally:
            for check in checks:
                self._checks[role].remove(check)

    def redis_answered(self) -> None:
        """Report that Redis answered."""
        if self._redis_since is None:
            self._redis_since = self._clock()
        self._redis_detail = "answers"

    def redis_failed(self, how: str) -> None:
        """Report that Redis did not answer."""
        self._redis_since = None
        self._redis_detail = f"does not answer: {how}"

    def alive(self) -> HealthReport:
        """Return whether no loop is stuck; an outage of Redis does not count, because a restart would not help."""
        return HealthReport(
            tuple(check.alive(self._redis_since) for checks in self._checks.values() for check in checks)
        )

    def ready(self) -> HealthReport:
        """Return whether every role does its work now."""
        results = [CheckResult("redis", self._redis_since is not None, self._redis_detail)]
        for role, checks in self._checks.items():
            results += [check.ready() for check in checks] or [CheckResult(role, False, "not running yet, or stopping")]
        return HealthReport(tuple(results))


@dataclass(frozen=True, slots=True)
class ProcessTelemetry:
    """Health and metrics of the roles of one process. Neither is global, so two runs in one process never mix."""

    health: Health = field(default_factory=Health)
    registry: CollectorRegistry = field(default_factory=Registry)
