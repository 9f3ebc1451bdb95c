"""Findings of `ragtide doctor` about the numbers of a deployment; it imports NumPy."""

from contextlib import suppress

from redis.asyncio import Redis

from ragtide_aggregator.alerts.rule_state import watches
from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.settings.model import Settings

from .alerting import false_alarm_findings
from .assumptions import covariate_findings, dependence_findings, sampling_findings, swing_findings
from .finding import Finding
from .server import history_findings
from .sights import sight_findings


async def number_findings(redis: Redis, settings: Settings) -> list[Finding]:
    """Return findings about the history, the alert rules, and what estimates assume of the traffic."""
    deployment = Deployment(redis, settings)
    states: list[AggregatorState] = []
    covariate_keys: list[EstimateKey] = []
    with suppress(CheckpointError):  # the finding of its partition names the damage
        states = await deployment.states()
    with suppress(CheckpointError):
        covariate_keys = await deployment.covariate_keys()
    return [
        *await history_findings(deployment),
        *false_alarm_findings(settings, sum(watches(settings.alerts, state.keys) for state in states)),
        *await sight_findings(deployment),
        *dependence_findings(states, settings),
        *sampling_findings(states),
        *swing_findings(states, settings),
        *covariate_findings(states, settings, covariate_keys),
    ]
