"""The tool that tests an alert rule on a recording, as `ragtide rules test` does."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import Field

from ragtide_roles.rule_checks import rule_findings
from ragtide_runtime.service_client import ServiceClient, ServiceError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import AlertRule
from ragtide_schemas.criterion import BUILT_IN
from ragtide_schemas.metric_definitions import CRITERIA_FAMILY

from .answers import OnlyPipeline, Tool, alert_fields, with_asked_criteria

TEST_S: Final = 120.0
"""Seconds after which a test of a rule ends with what it has replayed."""
FIRED_SHOWN: Final = 20
"""Most alerts of a tested rule that are listed."""


OpenTest = Callable[..., Any]
"""Returns a `RuleTest` of a rule, `since` a time, `until` another one, on a `pipeline`."""


def rule_test_tool(settings: Settings, open_test: OpenTest) -> Tool:
    """Return the tool that tests rules on a recording of this machine or of a store.

    Args:
        open_test: opens the recording for the test of a rule, between two times, on a pipeline.
    """

    async def test_rule(
        service: ServiceClient,
        *,
        rule: Annotated[AlertRule, Field(description="The alert rule, as a table `[[alerts]]` of the settings.")],
        since: Annotated[
            str | None,
            Field(max_length=40, description="Start, a date or time (ISO 8601, UTC); the whole recording without it."),
        ] = None,
        until: Annotated[str | None, Field(max_length=40, description="End, itself not included.")] = None,
        pipeline: OnlyPipeline = None,
    ) -> dict[str, Any]:
        """Test an alert rule on the recording: which alerts would it have raised, and when? It changes nothing.

        Use it before you propose a rule: a good rule fires where people saw a problem, and nowhere else. If the answer
        is not `complete`, choose a shorter time. `cautions` say why the rule could not fire, or never will.
        """
        testing = await asyncio.to_thread(open_test, rule, since=since, until=until, pipeline=pipeline)
        stop = asyncio.Event()
        limit = asyncio.get_running_loop().call_later(TEST_S, stop.set)
        try:
            result = await testing.run(stop, lambda _: None)
        finally:
            limit.cancel()
        alerts = [alert for alert in result.alerts if alert.rule == rule.name]
        cautions = [*result.unfired, *await _cautions(service, settings, rule)]
        return {
            "n": result.counts["n"],
            "total": result.counts["population_size"],
            "complete": result.counts["complete"],
            "fired": len(alerts),
            "in_production": result.rules[rule.name].production,
            "alerts": [alert_fields(alert) for alert in reversed(alerts[-FIRED_SHOWN:])],
            **({"cautions": cautions} if cautions else {}),
        }

    return test_rule


async def _cautions(service: ServiceClient, settings: Settings, rule: AlertRule) -> list[str]:
    unread = []
    if rule.metric.startswith(f"{CRITERIA_FAMILY}.") or rule.metric in BUILT_IN:
        try:
            settings = await with_asked_criteria(service, settings)
        except ServiceError as error:
            unread = [f"Stored criteria are not known: {error}"]
    return [*(finding.message for finding in rule_findings((rule,), settings)), *unread]
