"""Replays of rules that operators order on the page: one at a time, in child processes, with results in memory.

A replay of a month takes minutes of processor time, so a child process does it: it can be killed, and it does not hold
up requests. The child gets its order through its standard input, because the settings hold secrets.
"""

import asyncio
import os
import pickle
import signal
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import structlog

from ragtide_offline.replay.evidence_curve import EvidencePoint, FollowedRule
from ragtide_offline.replay.plan import open_recording
from ragtide_offline.replay.result import recorded_alerts
from ragtide_offline.replay.rule_test import RuleTest
from ragtide_offline.replay.selection import NothingSelectedError, Selection
from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.processes.children import child_command
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import Alert, AlertRule, utc_now

SHOWN: Final = 50
"""Most alerts of a replay that are kept."""
NICENESS: Final = 10
"""The child gives way to the service."""

CHILD: Final = "from ragtide_web.reading.rule_replays import serve; serve()"

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
class ReplayedAlert:
    """An alert that the rule would have raised."""

    fired_at: datetime
    resolved_at: datetime | None
    segment: str | None


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
    alerts: Sequence[ReplayedAlert] = field(default_factory=tuple)
    """The newest `SHOWN` of them, the newest first."""
    points: Sequence[EvidencePoint] = field(default_factory=tuple)


def rule_of(settings: Settings, alert: Alert) -> AlertRule | None:
    """Return the rule that raised an alert; None if the settings have none of its name and kind."""
    return next((rule for rule in settings.alerts if (rule.name, rule.kind) == (alert.rule, alert.kind)), None)


async def replayed(order: ReplayOrder) -> RuleReplay:
    """Replay the rule of an alert over the recording.

    Raises:
        RagtideError: there is no recording, it cannot be read, or nothing was recorded in this time.
    """
    settings, alert = order.settings, order.alert
    rule = rule_of(settings, alert)
    if rule is None:
        raise ConfigurationError(f"rule {alert.rule!r} is no longer in the settings of this service")
    if settings.recorder.url is None:
        raise ConfigurationError("this service knows no recording: set recorder.url")
    recording = open_recording(settings.recorder.url, settings)
    own = Selection(since=order.since, pipelines=frozenset({alert.pipeline}))
    # Rules that share a budget fire at lines that depend on all their values, of all pipelines.
    budget = settings.budget
    alone = rule.run_length is not None or (budget.false_alarms is None and budget.false_discovery_rate is None)
    followed = FollowedRule(
        rule.name,
        alert.pipeline,
        alert.segment,
        alert.profile,
        alert.labeler,
        alert.labeler_version,
        order.start,
        order.end,
    )
    nothing = f"the recording has no metric events of {alert.pipeline} since {order.since:%Y-%m-%d %H:%M} UTC"
    if alert.pipeline not in recording.pipelines():
        raise ConfigurationError(nothing)
    try:
        testing = RuleTest(
            settings,
            recording,
            own if alone else replace(own, pipelines=None),
            (rule,) if alone else settings.alerts,
            followed=followed,
        )
    except NothingSelectedError:
        raise ConfigurationError(nothing) from None
    found = await testing.run(asyncio.Event(), lambda _: None)
    fired = [raised for raised in found.alerts if (raised.rule, raised.pipeline) == (rule.name, alert.pipeline)]
    shown = [ReplayedAlert(raised.fired_at, raised.resolved_at, raised.segment) for raised in reversed(fired)]
    return RuleReplay(
        n=found.counts["n"],
        seconds=found.seconds,
        fired=len(fired),
        production=recorded_alerts(recording, own)[rule.name],
        alerts=shown[:SHOWN],
        points=found.evidence,
    )


def serve() -> None:
    """Do what the order on standard input asks for, and write the result, or a sentence, to standard output."""
    os.nice(NICENESS)
    # The order is of the service's own process, and not of a user.
    order: ReplayOrder = pickle.load(sys.stdin.buffer)  # noqa: S301
    signal.alarm(int(order.limit_s) + 1)
    configure_logging("error")
    try:
        answer: RuleReplay | str = asyncio.run(replayed(order))
    except RagtideError as error:
        answer = str(error)
    sys.stdout.buffer.write(pickle.dumps(answer))


def encoded(order: ReplayOrder) -> bytes:
    """Return the order as the child reads it."""
    return pickle.dumps(order)


def decoded(answer: bytes) -> RuleReplay | str:
    """Return the answer of a child: the result, or a sentence that says why there is none."""
    found: RuleReplay | str = pickle.loads(answer)  # noqa: S301 - our own child wrote it
    return found


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
            *child_command(CHILD), stdin=pipe, stdout=pipe, start_new_session=True
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
