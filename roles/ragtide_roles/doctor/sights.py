"""Findings of `ragtide doctor` about what the numbers of each pipeline would see."""

from typing import Final

from ragtide_aggregator.errors import CheckpointError, DamagedFieldError
from ragtide_aggregator.reading.deployment import Deployment

from .finding import Finding

MOST_SHOWN: Final = 20
"""Most metrics with a finding."""


async def sight_findings(deployment: Deployment) -> list[Finding]:
    """Return for each metric that comes from labels what its number would see."""
    try:
        headlines = await deployment.headlines()
    except (CheckpointError, DamagedFieldError):
        # The finding of its partition names the damage.
        return []
    return [
        Finding("ok", f"{headline.pipeline}: {headline.metric}", f"would see: {headline.would_see}")
        for headline in headlines
        if headline.would_see is not None and not headline.is_small
    ][:MOST_SHOWN]
