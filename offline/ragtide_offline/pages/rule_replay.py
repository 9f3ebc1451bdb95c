"""The process that replays the rule of an alert for the page."""

import asyncio
import os
import pickle
import signal
import sys
from dataclasses import replace
from typing import Final

from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_web.reading.rule_replays import SHOWN, ReplayOrder, RuleReplay, rule_of

from ..replay.evidence_curve import FollowedRule
from ..replay.plan import open_recording
from ..replay.result import recorded_alerts
from ..replay.rule_test import RuleTest
from ..replay.selection import NothingSelectedError, Selection

NICENESS: Final = 10
"""The process gives way to the service."""


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
    nothing = f"the recording has no metric events of {alert.pipeline} since {order.since:%Y-%m-%d %H:%M} UTC"
    if alert.pipeline not in recording.pipelines():
        raise ConfigurationError(nothing)
    try:
        testing = RuleTest(
            settings,
            recording,
            own if alone else replace(own, pipelines=None),
            (rule,) if alone else settings.alerts,
            followed=FollowedRule(alert, order.start, order.end),
        )
    except NothingSelectedError:
        raise ConfigurationError(nothing) from None
    result = await testing.run(asyncio.Event(), lambda _: None)
    fired = [raised for raised in result.alerts if (raised.rule, raised.pipeline) == (rule.name, alert.pipeline)]
    return RuleReplay(
        n=result.counts["n"],
        seconds=result.seconds,
        fired=len(fired),
        production=recorded_alerts(recording, own)[rule.name],
        alerts=fired[::-1][:SHOWN],
        points=result.evidence,
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
