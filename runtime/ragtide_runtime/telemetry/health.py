"""Liveness and readiness of a role, from the signs of life of its loops and the answers of Redis.

A role is alive if a restart would not help: the event loop answers, and no loop is stuck. A loop that waits for work is
alive. A loop that tries again because Redis or a judge is down is alive too. Only a loop that gave no sign for
`SILENT_S` although Redis answered all that time is stuck. A role is ready if it does its work now: Redis answers, and
each loop's last turn succeeded.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Protocol

SILENT_S: Final = 60.0
"""Seconds of silence after which a loop is stuck; twice the time a command may wait for a dead connection."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check of a role."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks, and whether all of them passed."""

    checks: tuple[Check, ...]

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


class Sign(Protocol):
    """A part of a role that reports its own liveness and readiness."""

    def alive(self, redis_since: float | None) -> Check:
        """Return whether it is not stuck.

        Args:
            redis_since: since when, on the monotonic clock, Redis has answered without a break; None if it does not.
        """

    def ready(self) -> Check:
        """Return whether it does its work now."""


class Pulse:
    """The signs of life of one loop.

    Args:
        name: of the loop.
        clock: monotonic seconds.
    """

    def __init__(self, name: str, *, clock: Callable[[], float] = monotonic) -> None:
        self.name = name
        self._clock = clock
        self._last = clock()
        self._resting = False
        self._detail = "starting"
        self._problem = True

    def beat(self, doing: str) -> None:
        """Take note of a turn that went well."""
        self._last, self._detail, self._problem = self._clock(), doing, False

    def trouble(self, what: str) -> None:
        """Take note of a turn that failed and will be tried again."""
        self._last, self._detail, self._problem = self._clock(), what, True

    @contextmanager
    def resting(self, waiting_for: str) -> Iterator[None]:
        """Mark the loop as waiting for the body of a `with`: it may wait for any time and does not count as stuck."""
        self.beat(waiting_for)
        self._resting = True
        try:
            yield
        finally:
            self._resting = False
            self._last = self._clock()

    def alive(self, redis_since: float | None) -> Check:
        """Return whether the loop is not stuck."""
        silent_s = 0.0 if self._resting or redis_since is None else self._clock() - max(self._last, redis_since)
        if silent_s < SILENT_S:
            return Check(self.name, True, self._detail)
        return Check(self.name, False, f"no sign of life for {silent_s:.0f} s, last: {self._detail}")

    def ready(self) -> Check:
        """Return whether the last turn went well."""
        return Check(self.name, not self._problem, self._detail)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that is checked anew at each question for readiness."""

    name: str
    holds: Callable[[], bool]
    otherwise: str
    """The detail of the check while the condition does not hold."""

    def alive(self, redis_since: float | None) -> Check:
        """Return a passed check: a condition is no loop and cannot be stuck."""
        del redis_since
        return Check(self.name, True, "not a loop")

    def ready(self) -> Check:
        """Return whether the condition holds."""
        return Check(self.name, True, "yes") if self.holds() else Check(self.name, False, self.otherwise)


class Health:
    """The liveness and readiness of the roles of one process.

    Args:
        roles: that must have given a sign before the process is ready.
        clock: monotonic seconds.
    """

    def __init__(self, *roles: str, clock: Callable[[], float] = monotonic) -> None:
        self._signs: dict[str, list[Sign]] = {role: [] for role in roles}
        self._clock = clock
        self._redis_since: float | None = None
        self._redis_detail = "not asked yet"

    @contextmanager
    def watching(self, role: str, *signs: Sign) -> Iterator[None]:
        """Count signs as a role's for the body of a `with`."""
        self._signs.setdefault(role, []).extend(signs)
        try:
            yield
        finally:
            for sign in signs:
                self._signs[role].remove(sign)

    def redis_answered(self) -> None:
        """Take note that Redis answered."""
        if self._redis_since is None:
            self._redis_since = self._clock()
        self._redis_detail = "answers"

    def redis_failed(self, how: str) -> None:
        """Take note that Redis did not answer."""
        self._redis_since = None
        self._redis_detail = f"does not answer: {how}"

    def alive(self) -> Report:
        """Return whether a restart would not help; an outage of Redis does not count."""
        return Report(tuple(sign.alive(self._redis_since) for signs in self._signs.values() for sign in signs))

    def ready(self) -> Report:
        """Return whether every role does its work now."""
        checks = [Check("redis", self._redis_since is not None, self._redis_detail)]
        for role, signs in self._signs.items():
            checks += [sign.ready() for sign in signs] or [Check(role, False, "not running yet, or stopping")]
        return Report(tuple(checks))
