"""Findings of `ragtide doctor` about what estimates and alert rules assume of the traffic of pipelines."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from ragtide_aggregator.estimates.assumptions import (
    WaitingPipeline,
    continued_pipelines,
    dependent_pipelines,
    mixed_pipelines,
    swinging_rules,
    waiting_pipelines,
)
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import COMPUTED_COVARIATES, Settings
from ragtide_runtime.settings.open_sessions import waiting_sentence

from .finding import Finding

MANY_WAIT: Final = 0.5
"""Share of a pipeline's interactions in open clusters, above which there is a warning."""

LEAST_WITHOUT: Final = 100
"""Values of a pipeline without a covariate from which on there is a warning."""

MOST_SHOWN: Final = 5
"""Most pipelines or rules with a finding of one kind."""


def dependence_findings(states: Sequence[AggregatorState], settings: Settings) -> list[Finding]:
    """Return findings about pipelines with dependent interactions.

    Their intervals may be too narrow, and open clusters keep interactions from alert rules.
    """
    dependent = [pipeline for state in states for pipeline in dependent_pipelines(state)]
    dependent.sort(key=lambda pipeline: -pipeline.design_effect)
    continued = [pipeline for state in states for pipeline in continued_pipelines(state)]
    continued.sort(key=lambda pipeline: -pipeline.share)
    open_clusters = [pipeline for state in states for pipeline in waiting_pipelines(state)]
    open_clusters.sort(key=lambda pipeline: -pipeline.waiting)
    findings = [
        Finding(
            "warning",
            f"pipeline {pipeline.pipeline}",
            f"neighbouring interactions depend on each other: design effect {pipeline.design_effect:.1f} of "
            f"{pipeline.metric}; unless the mean has changed, intervals are too narrow, and false alarms more frequent "
            "than stated",
            "set clusters.by to session_id, user_id or blocks (ragtide docs clusters)",
        )
        for pipeline in dependent[:MOST_SHOWN]
    ]
    findings += [
        Finding(
            "warning",
            f"clusters of {pipeline.pipeline}",
            f"{pipeline.share:.0%} of the clusters ({pipeline.continued:,} of {pipeline.clusters:,}) go on with a "
            "cluster that was closed before; intervals are too narrow, and false alarms more frequent than the rules "
            "state",
            "raise clusters.quiet_s, or clusters.size if sessions are longer (ragtide docs clusters)",
        )
        for pipeline in continued[:MOST_SHOWN]
    ]
    return findings + [_open_clusters(pipeline, settings.clusters) for pipeline in open_clusters[:MOST_SHOWN]]


def _open_clusters(pipeline: WaitingPipeline, clusters: ClusterSettings) -> Finding:
    many = pipeline.waiting > MANY_WAIT * pipeline.interactions
    advice = "lower clusters.quiet_s to little more than the pauses in your sessions, so that answers count sooner"
    return Finding(
        "warning" if many else "ok",
        f"open clusters of {pipeline.pipeline}",
        waiting_sentence(pipeline.waiting, clusters),
        f"{advice} (ragtide docs clusters)" if many else "",
    )


def sampling_findings(states: Sequence[AggregatorState]) -> list[Finding]:
    """Return a warning for each pipeline whose estimates are weighted, because its alert rules are not."""
    mixed = [pipeline for state in states for pipeline in mixed_pipelines(state)]
    return [
        Finding(
            "warning",
            f"sampling of {pipeline.pipeline}",
            f"interactions were kept with probabilities from {pipeline.lowest:g} to {pipeline.highest:g}; estimates "
            "are weighted, but alert rules and explanations take the interactions as they were kept",
            "sample with one probability; with several, a change of the sampling may fire rules (ragtide docs samples)",
        )
        for pipeline in mixed[:MOST_SHOWN]
    ]


def covariate_findings(
    states: Sequence[AggregatorState], settings: Settings, keys: Sequence[EstimateKey]
) -> list[Finding]:
    """Return a warning for each rule on a covariate that no interaction of a pipeline has.

    Args:
        keys: of the rules on covariates of which values came.
    """
    values = {(key.pipeline, key.metric) for key in keys}
    counted = {
        key.pipeline
        for state in states
        for row, key in enumerate(state.keys)
        if key.run is None and key.segment is None and state.moments.n(row) >= LEAST_WITHOUT
    }
    missing = [
        (rule, pipeline)
        for rule in settings.alerts
        if rule.covariate is not None
        for pipeline in sorted(counted)
        if fnmatchcase(pipeline, rule.pipeline) and (pipeline, rule.metric) not in values
    ]
    return [
        Finding(
            "warning",
            f"alert rule {rule.name}: {pipeline}",
            f"no interaction has the covariate {rule.covariate}, so the rule watches nothing there",
            "restart workers whose settings do not have this rule"
            if rule.covariate in COMPUTED_COVARIATES
            else "publish it with the interactions (ragtide docs python)",
        )
        for rule, pipeline in missing[:MOST_SHOWN]
    ]


def swing_findings(states: Sequence[AggregatorState], settings: Settings) -> list[Finding]:
    """Return a warning for each rule whose metric moves with the hour of the day by more than its `min_effect`."""
    rules = [rule for state in states for rule in swinging_rules(state, settings.alerts)]
    rules.sort(key=lambda rule: -rule.swing)
    return [
        Finding(
            "warning",
            f"alert rule {rule.rule}: {rule.pipeline}",
            f"the mean of {rule.metric} swings by {rule.swing:.2g} over the day, so the rule may fire every day",
            f'set min_effect = {rule.min_effect:g} or baseline = "seasonal" (ragtide docs alerts)',
        )
        for rule in rules[:MOST_SHOWN]
    ]
