"""Findings of `ragtide doctor` about interactions that were kept from the traffic with different probabilities."""

from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.estimates.sampled import mixed_pipelines
from ragtide_aggregator.reading.deployment import Deployment

from .finding import Finding

MOST_SHOWN = 5
"""Most pipelines with a finding of their own."""


async def sampling_findings(deployment: Deployment) -> list[Finding]:
    """Return a warning for each pipeline whose estimates are weighted, because its alert rules are not."""
    try:
        states = await deployment.states()
    except CheckpointError:
        # The finding of its partition names the damage.
        return []
    mixed = [one for state in states for one in mixed_pipelines(state)]
    return [
        Finding(
            "warning",
            f"sampling of {one.pipeline}",
            f"interactions were kept with probabilities from {one.lowest:g} to {one.highest:g}; estimates are "
            "weighted, but alert rules and explanations take the interactions as they were kept",
            "sample with one probability; with several, a change of the sampling may fire rules (ragtide docs samples)",
        )
        for one in mixed[:MOST_SHOWN]
    ]
