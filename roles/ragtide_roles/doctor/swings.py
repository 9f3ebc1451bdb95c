"""Findings of `ragtide doctor` about alert rules that day and night may fire."""

from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.estimates.swinging import swinging_rules
from ragtide_aggregator.reading.deployment import Deployment

from .finding import Finding

MOST_SHOWN = 5
"""Most rules with a finding of their own."""


async def swing_findings(deployment: Deployment) -> list[Finding]:
    """Return a warning for each rule whose metric moves with the hour of the day by more than its `min_effect`."""
    try:
        states = await deployment.states()
    except CheckpointError:
        # The finding of its partition names the damage.
        return []
    found = [one for state in states for one in swinging_rules(state, deployment.settings.alerts)]
    found.sort(key=lambda one: -one.swing)
    return [
        Finding(
            "warning",
            f"alert rule {one.rule}: {one.pipeline}",
            f"the mean of {one.metric} swings by {one.swing:.2g} over the day, so the rule may fire every day",
            f'set min_effect = {one.min_effect:g} or baseline = "seasonal" (ragtide docs seasons)',
        )
        for one in found[:MOST_SHOWN]
    ]
