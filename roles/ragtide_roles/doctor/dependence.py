"""Findings of `ragtide doctor` about interactions that depend on each other although they count as independent."""

from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.estimates.continued import continued_pipelines
from ragtide_aggregator.estimates.dependent import dependent_pipelines
from ragtide_aggregator.reading.deployment import Deployment

from .finding import Finding

MOST_SHOWN = 5
"""Most pipelines with a finding of their own."""


async def dependence_findings(deployment: Deployment) -> list[Finding]:
    """Return a warning for each pipeline whose intervals are too narrow because of dependent interactions."""
    try:
        states = await deployment.states()
    except CheckpointError:
        # The finding of its partition names the damage.
        return []
    dependent = [one for state in states for one in dependent_pipelines(state)]
    dependent.sort(key=lambda one: -one.design_effect)
    continued = [one for state in states for one in continued_pipelines(state)]
    continued.sort(key=lambda one: -one.share)
    return [
        Finding(
            "warning",
            f"pipeline {one.pipeline}",
            f"neighbouring interactions depend on each other: design effect {one.design_effect:.1f} of {one.metric}; "
            "unless the mean has changed, intervals are too narrow, and false alarms more frequent than stated",
            "set clusters.by to session_id, user_id or blocks (ragtide docs clusters)",
        )
        for one in dependent[:MOST_SHOWN]
    ] + [
        Finding(
            "warning",
            f"clusters of {one.pipeline}",
            f"{one.share:.0%} of the clusters ({one.continued:,} of {one.clusters:,}) go on with a cluster that was "
            "closed before; intervals are too narrow, and false alarms more frequent than the rules state",
            "raise clusters.quiet_s, or clusters.size if sessions are longer (ragtide docs clusters)",
        )
        for one in continued[:MOST_SHOWN]
    ]
