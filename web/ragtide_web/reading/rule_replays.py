"""Replays of rules that operators order on the page: one at a time, in child processes, with results in memory.

A replay of a month takes minutes of processor time, so a child process does it: it can be killed, and it does not hold
up requests. The child gets its order through its standard input, because the settings hold secrets.
"""

import asyncio
import pickle
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import structlog

from ragtide_runtime.errors import RagtideError
from ragtide_runtime.processes.children import child_command
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, AlertRule, utc_now
from ragtide_schemas.alert_evidence import EvidencePoint

SHOWN: Final = 50
"""Most alerts of a replay that are kept."""
LIMIT_S: Final = 600.0
"""Seconds after which a replay is given up."""
KEPT: Final = 100
"""Alerts whose last replay is kept."""
log = structlog.get_logger("ragtide.web")


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """The order to replay the rule of an alert."""

    settings: Settings
    alert: Alert
    since: datetime
    """Start of the replay."""
    start: datetime
    """Start of the evidence curve."""
    end: datetime
    """End of the evidence curve."""
    limit_s: float
    """Seconds after which the child ends by itself, even if the service is gone."""


@dataclass(frozen=True, slots=True)
class RuleReplay:
    """The result of a replay of a rule."""

    n: int
    """Metric events that were replayed."""
    seconds: float
    fired: int
    """Alerts of the rule on the pipeline of the alert."""
    production: int
    """Alerts of the rule on this pipeline, according to the recording."""
    alerts: Sequence[Alert] = field(default_factory=tuple)
    """The newest `SHOWN` of them, the newest first."""
    points: Sequence[EvidencePoint] = field(default_factory=tuple)


def rule_of(settings: Settings, alert: Alert) -> AlertRule | None:
    """Return the rule that raised an alert; None if the settings have none of its name and kind."""
    return next((rule for rule in settings.alerts if (rule.name, rule.kind) == (alert.rule, alert.kind)), None)


def encoded(order: ReplayOrder) -> bytes:
    """Return the order as the child reads it."""
    return pickle.dumps(order)


def decoded(answer: bytes) -> RuleReplay | str:
    """Return the answer of a child: the result, or a sentence that says why there is none."""
    result: RuleReplay | str = pickle.loads(answer)  # noqa: S301 - our own child wrote it
    return result


class ReplayIsRunningError(RagtideError):
    """Another replay runs."""


@dataclass(frozen=True, slots=True)
class ReplayState:
    """The last replay of an alert's rule."""

    order: ReplayOrder
    by: str
    """User that ordered it."""
    at: datetime
    """Time of the order."""
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
        child: Python of the process, which reads an order on its standard input and writes the result.
        limit_s: seconds after which a replay is given up.
    """

    def __init__(self, changed: Callable[[], None], child: str, limit_s: float = LIMIT_S) -> None:
        self._changed = changed
        self._child = child
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
        state = ReplayState(order, by, utc_now())
        self._keep(state)
        self._task = asyncio.create_task(self._run(state))

    async def aclose(self) -> None:
        """End the replay that runs."""
        if self._task is not None:
            await end(self._task)

    def _keep(self, state: ReplayState) -> None:
        alert_id = state.order.alert.alert_id
        self._states[alert_id] = state
        self._states.move_to_end(alert_id)
        if len(self._states) > KEPT:
            self._states.popitem(last=False)
        self._changed()

    async def _run(self, state: ReplayState) -> None:
        try:
            answer = await self._answer(state.order)
        except Exception:  # a defect of one replay must not end the service
            log.exception("a replay of a rule failed", alert=state.order.alert.alert_id)
            answer = "the replay failed: the log of the service has the cause"
        finally:
            self._task = None
        self._keep(replace(state, problem=answer) if isinstance(answer, str) else replace(state, result=answer))

    async def _answer(self, order: ReplayOrder) -> RuleReplay | str:
        pipe = asyncio.subprocess.PIPE
        # In a session of its own: Ctrl-C in a terminal is for the service, which ends the child.
        child = await asyncio.create_subprocess_exec(
            *child_command(self._child), stdin=pipe, stdout=pipe, start_new_session=True
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
