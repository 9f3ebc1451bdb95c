"""Metrics of the user's own: a definition, and a function from an interaction and its labels to a number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import structlog

from ragtide_schemas import MetricDefinition, RagInteraction, register_metric

from ..labeler import Labeler, Labeling, Labels
from .scores import AbsentReason

Compute = Callable[[RagInteraction, Sequence[Labels]], float | None]
"""Returns the value of one interaction within the metric's range; None where it is undefined."""

log = structlog.get_logger("ragtide.metrics")


@dataclass(frozen=True, slots=True)
class CustomMetric:
    """A metric of your own.

    Install it under the entry point group `ragtide.metrics`, or name it in the setting `metrics` as
    `module:attribute`, for workers and aggregator alike: the aggregator needs its range.

    >>> from ragtide_schemas import Direction, Kind
    >>> words = CustomMetric(
    ...     MetricDefinition(
    ...         name="mine.words",
    ...         lower=0,
    ...         upper=1000,
    ...         direction=Direction.NEITHER,
    ...         kind=Kind.ALGEBRAIC,
    ...         meaning="Words of the response.",
    ...         source="us",
    ...         definition="number of words",
    ...     ),
    ...     lambda interaction, labels: float(len(interaction.response.split())),
    ... )
    """

    definition: MetricDefinition
    compute: Compute


class WithMetrics:
    """A labeler whose scores are joined by metrics of the user's own. One that fails is absent and stops nothing."""

    def __init__(self, labeler: Labeler, metrics: Sequence[CustomMetric]) -> None:
        self._labeler = labeler
        self._metrics = metrics
        for metric in metrics:
            register_metric(metric.definition)

    @property
    def name(self) -> str:
        """Name of the labeler."""
        return self._labeler.name

    @property
    def version(self) -> str:
        """Version of the labeler."""
        return self._labeler.version

    @property
    def profile(self) -> str:
        """Profile of the labeler."""
        return self._labeler.profile

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the labeler's scores and the user's own."""
        labeling = await self._labeler.label(interaction)
        scores, absent = dict(labeling.scores), dict(labeling.absent)
        for metric in self._metrics:
            name = metric.definition.name
            value = _value(metric, interaction, labeling.labels)
            if isinstance(value, AbsentReason):
                absent[name] = value
            else:
                scores[name] = value
        return replace(labeling, scores=scores, absent=absent)


def _value(metric: CustomMetric, interaction: RagInteraction, labels: Sequence[Labels]) -> float | AbsentReason:
    definition = metric.definition
    try:
        value = metric.compute(interaction, labels)
        if value is None:
            return AbsentReason.UNDEFINED
        number = float(value)
    except Exception as error:  # noqa: BLE001 - it is somebody's code: whatever it raises must not stop the worker
        log.warning("a metric failed", metric=definition.name, error=f"{type(error).__name__}: {error}")
        return AbsentReason.METRIC_FAILED
    if not (isfinite(number) and definition.lower <= number <= definition.upper):
        log.warning(
            "a metric left its range",
            metric=definition.name,
            value=number,
            lower=definition.lower,
            upper=definition.upper,
        )
        return AbsentReason.METRIC_FAILED
    return number
