"""Replays of rules that operators order on the page: one at a time, in child processes, with results in memory."""

import asyncio
import json
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import structlog

from ragtide_runtime.errors import RagtideError
from ragtide_runtime.processes.waiting import end
from ragtide_schemas import utc_now

from .rule_replay import CHILD, ReplayOrder, RuleReplay, decoded, encoded

LIMIT_S: Final = 600.0
"""Seconds after which a replay is given up."""
KEPT: Final = 100
"""Alerts whose last replay is kept."""

log = structlog.get_logger("ragtide.web")


class ReplayIsRunningError(RagtideError):
    """Another replay runs."""


@dataclass(frozen=True, slots=True)
class ReplayState:
    """The last replay of an alert's rule."""

    alert_id: str
    by: str
    """User that ordered it."""
    at: datetime
    """Time of the order."""
    since: datetime
    """Start of the replay."""
    start: datetime
    """Start of the evidence curve."""
    end: datetime
    """End of the evidence curve."""
    result: RuleReplay | None = None
    problem: str = ""
    """Reason why there is no result."""

    @property
    def runs(self) -> bool:
        """Whether it still runs."""
        return self.result is None and not self.problem


class RuleReplays:
    """The replays of this process.

    Args:
        changed: called when a replay begins or ends.
        limit_s: seconds after which a replay is given up.
    """

    def __init__(self, changed: Callable[[], None], limit_s: float = LIMIT_S) -> None:
        self._changed = changed
        self._limit_s = limit_s
        self._states: OrderedDict[str, ReplayState] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    @property
    def limit_s(self) -> float:
        """Seconds after which a replay is given up."""
        return self._limit_s

    def of(self, alert_id: str) -> ReplayState | None:
        """Return the last replay of an alert's rule; None if there was none, or it is forgotten."""
        return self._states.get(alert_id)

    def check(self) -> None:
        """Check that a replay may begin.

        Raises:
            ReplayIsRunningError: another replay runs.
        """
        if self._task is not None:
            raise ReplayIsRunningError("another replay of a rule runs: wait for its end, then order this one again")

    def begin(self, order: ReplayOrder, by: str) -> None:
        """Begin a replay.

        Raises:
            ReplayIsRunningError: another replay runs.
        """
        self.check()
        state = ReplayState(order.alert.alert_id, by, utc_now(), order.since, order.start, order.end)
        self._keep(state)
        self._task = asyncio.create_task(self._run(order, state))

    async def aclose(self) -> None:
        """End the replay that runs."""
        if self._task is not None:
            await end(self._task)

    def _keep(self, state: ReplayState) -> None:
        self._states[state.alert_id] = state
        self._states.move_to_end(state.alert_id)
        if len(self._states) > KEPT:
            self._states.popitem(last=False)
        self._changed()

    async def _run(self, order: ReplayOrder, state: ReplayState) -> None:
        try:
            found = await self._answer(order)
        except Exception:  # a defect of one replay must not end the service
            log.exception("a replay of a rule failed", alert=state.alert_id)
            found = "the replay failed: the log of the service has the cause"
        finally:
            self._task = None
        self._keep(replace(state, problem=found) if isinstance(found, str) else replace(state, result=found))

    async def _answer(self, order: ReplayOrder) -> RuleReplay | str:
        pipe = asyncio.subprocess.PIPE
        # In a session of its own: Ctrl-C in a terminal is for the service, which ends the child.
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, json.dumps(sys.path), stdin=pipe, stdout=pipe, start_new_session=True
        )
        try:
            async with asyncio.timeout(self._limit_s):
                answer, _ = await child.communicate(encoded(order))
        except TimeoutError:
            return (
                f"the replay took longer than {self._limit_s:g} s: choose fewer days, or use ragtide rules test, which "
                "has no limit"
            )
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        if child.returncode or not answer:
            log.error("the process of a replay ended early", alert=order.alert.alert_id, code=child.returncode)
            return f"the process of the replay ended early (exit code {child.returncode}): look at the service's log"
        return decoded(answer)
