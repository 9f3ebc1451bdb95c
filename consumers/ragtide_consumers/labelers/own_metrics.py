"""The own metrics of an experiment, as custom metrics of its labeler."""

from collections.abc import Sequence
from functools import partial

from ragtide_schemas import Labels, RagInteraction
from ragtide_schemas.experiments import OWN_SCORES, OwnMetric, Plan

from ..metrics.custom import CustomMetric


def own_metrics(plan: Plan) -> list[CustomMetric]:
    """Return an experiment's own metrics as custom metrics for its labeler."""
    return [CustomMetric(metric.definition(), partial(_own_score, metric)) for metric in plan.metrics]


def _own_score(metric: OwnMetric, interaction: RagInteraction, _: Sequence[Labels]) -> float | None:
    scores = interaction.metadata.get(OWN_SCORES)
    value = scores.get(metric.name) if isinstance(scores, dict) else None
    return float(value) if isinstance(value, int | float) else None
