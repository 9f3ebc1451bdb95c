"""Findings of `ragtide doctor` about interactions that depend on each other although they count as independent."""

from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.estimates.continued import WaitingPipeline, continued_pipelines, waiting_pipelines
from ragtide_aggregator.estimates.dependent import dependent_pipelines
from ragtide_aggregator.reading.deployment import Deployment

from .finding import Finding

MANY_WAIT = 0.5
"""Share of a pipeline's interactions in open clusters, above which there is a warning."""

MOST_SHOWN = 5
"""Most pipelines with a finding of their own."""


async def dependence_findings(deployment: Deployment) -> list[Finding]:
    """Return findings about pipelines with dependent interactions.

    Their intervals may be too narrow, and open clusters keep interactions from alert rules.
    """
    try:
        states = await deployment.states()
    except CheckpointError:
        # The finding of its partition names the damage.
        return []
    dependent = [one for state in states for one in dependent_pipelines(state)]
    dependent.sort(key=lambda one: -one.design_effect)
    continued = [one for state in states for one in continued_pipelines(state)]
    continued.sort(key=lambda one: -one.share)
    findings = [
        Finding(
            "warning",
            f"pipeline {one.pipeline}",
            f"neighbouring interactions depend on each other: design effect {one.design_effect:.1f} of {one.metric}; "
            "unless the mean has changed, intervals are too narrow, and false alarms more frequent than stated",
            "set clusters.by to session_id, user_id or blocks (ragtide docs clusters)",
        )
        for one in dependent[:MOST_SHOWN]
    ]
    findings += [
        Finding(
            "warning",
            f"clusters of {one.pipeline}",
            f"{one.share:.0%} of the clusters ({one.continued:,} of {one.clusters:,}) go on with a cluster that was "
            "closed before; intervals are too narrow, and false alarms more frequent than the rules state",
            "raise clusters.quiet_s, or clusters.size if sessions are longer (ragtide docs clusters)",
        )
        for one in continued[:MOST_SHOWN]
    ]
    waiting = [one for state in states for one in waiting_pipelines(state)]
    waiting.sort(key=lambda one: -one.waiting)
    return findings + [_waiting_finding(one, deployment.settings.clusters.quiet_s) for one in waiting[:MOST_SHOWN]]


def _waiting_finding(one: WaitingPipeline, quiet_s: float) -> Finding:
    many = one.waiting > MANY_WAIT * one.interactions
    advice = "lower clusters.quiet_s to little more than the pauses in your sessions, so that alerts come sooner"
    return Finding(
        "warning" if many else "ok",
        f"open clusters of {one.pipeline}",
        f"{one.waiting:,} of {one.interactions:,} interactions wait in open sessions or other clusters; intervals and "
        f"alert rules count them when their cluster closes, at the latest {quiet_s:g} s after its last interaction",
        f"{advice} (ragtide docs clusters)" if many else "",
    )
