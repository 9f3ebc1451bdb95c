"""The metrics that an experiment measures itself: interactions carry their values, which join the labeler's scores."""

from collections.abc import Sequence
from functools import partial

from ragtide_schemas import Labels, RagInteraction
from ragtide_schemas.experiments import OWN_SCORES, OwnMetric, Plan

from ..metrics.custom import CustomMetric


def own_metrics(plan: Plan) -> list[CustomMetric]:
    """Return an experiment's own metrics as custom metrics for its labeler."""
    return [CustomMetric(metric.definition(), partial(_carried, metric)) for metric in plan.metrics]


def _carried(metric: OwnMetric, interaction: RagInteraction, _: Sequence[Labels]) -> float | None:
    scores = interaction.metadata.get(OWN_SCORES)
    value = scores.get(metric.name) if isinstance(scores, dict) else None
    return float(value) if isinstance(value, int | float) else None
