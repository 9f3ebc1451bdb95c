"""The replay of one alert's rule over the recording, in a process of its own, and its result for a screen.

A replay of a month takes minutes of processor time, so a child process does it: it can be killed, and it does not hold
up requests. The child gets its order through its standard input, because the settings hold secrets.
"""

import asyncio
import os
import pickle
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from ragtide_offline.replay.counting import NothingSelectedError
from ragtide_offline.replay.evidence_curve import EvidencePoint, FollowedRule
from ragtide_offline.replay.plan import open_recording
from ragtide_offline.replay.result import recorded_alerts
from ragtide_offline.replay.rule_test import RuleTest
from ragtide_offline.replay.selection import Selection
from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import Alert, AlertRule

SHOWN: Final = 50
"""Most alerts of a replay that are kept."""
NICENESS: Final = 10
"""The child gives way to the service."""

CHILD: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from ragtide_web.page.alerts.rule_replay import serve
serve()
"""


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
    return next((one for one in settings.alerts if (one.name, one.kind) == (alert.rule, alert.kind)), None)


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
    fired = [one for one in found.alerts if (one.rule, one.pipeline) == (rule.name, alert.pipeline)]
    shown = [ReplayedAlert(one.fired_at, one.resolved_at, one.segment) for one in reversed(fired)]
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
    """Return the answer of a child: the result, or a sentence that tells why there is none."""
    found: RuleReplay | str = pickle.loads(answer)  # noqa: S301 - our own child wrote it
    return found
