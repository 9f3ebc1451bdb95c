"""The checks of `ragtide doctor` for the page: made in the background, and only while a page asks for them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from ragtide_roles.doctor.finding import Finding
from ragtide_runtime.cancellation import end
from ragtide_schemas import utc_now

FRESH_S: Final = 30.0
"""Seconds for which findings are shown before the checks are made again."""
FIRST_WAIT_S: Final = 5.0
"""Most seconds that a page waits for the first findings."""
LIMIT_S: Final = 60.0
"""Seconds after which the checks are given up."""

log = structlog.get_logger("ragtide.web")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of the checks."""

    findings: Sequence[Finding]
    """Problems first, then warnings."""
    at: datetime | None
    """Time of the checks; None before the first."""
    failed: bool = False
    """Whether the last checks did not end: Redis did not answer, or they took too long."""


class BackgroundChecks:
    """Makes the checks at most every `FRESH_S` seconds.

    Args:
        examine: makes all checks.
    """

    def __init__(self, examine: Callable[[], Awaitable[Sequence[Finding]]]) -> None:
        self._examine = examine
        self._task: asyncio.Task[None] | None = None
        self._result = CheckResult((), None)
        self._ends_at = float("-inf")

    async def read(self) -> CheckResult:
        """Return the newest result, and begin new checks if it is old; the first checks are waited for."""
        loop = asyncio.get_running_loop()
        if self._task is None and loop.time() - self._ends_at >= FRESH_S:
            self._task = asyncio.create_task(self._run())
        if self._task is not None and self._result.at is None:
            await asyncio.wait((self._task,), timeout=FIRST_WAIT_S)
        return self._result

    async def aclose(self) -> None:
        """Give running checks up."""
        if self._task is not None:
            await end(self._task)

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                found = await self._examine()
            order = ("problem", "warning", "ok")
            self._result = CheckResult(sorted(found, key=lambda one: order.index(one.level)), utc_now())
        except Exception as error:  # noqa: BLE001 - a page without checks is better than no page
            log.warning("the checks of the page did not end", error=f"{type(error).__name__}: {error}")
            self._result = CheckResult(self._result.findings, self._result.at, failed=True)
        finally:
            self._ends_at = asyncio.get_running_loop().time()
            self._task = None
