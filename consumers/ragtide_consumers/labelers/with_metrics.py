"""Adds custom metrics to the scores of a labeler: optional metrics of ragtide, and metrics of users."""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

import structlog

from ragtide_runtime.processes.user_code import contained, error_text
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import Labels, RagInteraction
from ragtide_schemas.criterion import Criterion

from ..metrics.custom import CustomMetric
from ..metrics.scores import Absent, AbsentReason
from .protocol import Labeler, Labeling, OfAnother, criteria_of, scores_of, take_criteria

log = structlog.get_logger("ragtide.metrics")

log_limit = LogLimit()
"""A metric that fails does so for every interaction, so it is logged once a minute."""


class WithMetrics(OfAnother):
    """A labeler that adds custom metrics to another labeler's scores. A metric that fails is absent."""

    def __init__(self, labeler: Labeler, metrics: Sequence[CustomMetric]) -> None:
        self.labeler = labeler
        self._metrics = metrics
        self._declared = {metric.definition.name: metric.declaration for metric in metrics}

    @property
    def _labeler(self) -> Labeler:
        return self.labeler

    @property
    def scores_sessions(self) -> bool:
        """Whether the labeler scores whole sessions."""
        return bool(getattr(self._labeler, "scores_sessions", False))

    @property
    def criteria(self) -> Sequence[Criterion]:
        """The criteria that the labeler asks."""
        return criteria_of(self._labeler)

    def take_criteria(self, criteria: Sequence[Criterion]) -> None:
        """Replace the criteria that the labeler asks."""
        take_criteria(self._labeler, criteria)

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the labeler's scores with the custom metrics; the reference's part has metrics of its own labels."""
        labeling = await scores_of(self._labeler, interaction)
        if interaction.is_session:  # custom metrics are of answers
            return labeling
        judged = labeling.judged
        if judged is not None:
            judged = replace(
                judged, labeling=self._add_metrics(interaction, judged.labeling, _skipped(judged.labeling))
            )
        joined = self._add_metrics(interaction, labeling)
        return replace(joined, judged=judged, declared={**labeling.declared, **self._declared})

    def _add_metrics(self, interaction: RagInteraction, labeling: Labeling, skipped: str | None = None) -> Labeling:
        scores, absent = dict(labeling.scores), dict(labeling.absent)
        for metric in self._metrics:
            name = metric.definition.name
            value = _value(metric, interaction, labeling.labels) if skipped is None else skipped
            if isinstance(value, str):
                absent[name] = value
            else:
                scores[name] = value
        return replace(labeling, scores=scores, absent=absent)


def _skipped(judged: Labeling) -> str | None:
    if judged.labels or judged.scores:
        return None
    return next(iter(judged.absent.values()), None)


def _value(metric: CustomMetric, interaction: RagInteraction, labels: Sequence[Labels]) -> float | str:
    definition = metric.definition
    try:
        with contained():
            value = metric.compute(interaction, labels)
            if value is None:
                return str(AbsentReason.UNDEFINED)
            if isinstance(value, Absent | AbsentReason):
                return str(value.reason if isinstance(value, Absent) else value)
            number = float(value)
    except Exception as error:  # noqa: BLE001 - an error in a user's code must not stop the worker
        log_limit.warning(
            log,
            (definition.name, type(error)),
            "a custom metric failed; it is absent as metric_failed",
            metric=definition.name,
            error=error_text(error),
        )
        return str(AbsentReason.METRIC_FAILED)
    if not (isfinite(number) and definition.lower <= number <= definition.upper):
        log_limit.warning(
            log,
            (definition.name, "range"),
            "a custom metric left its range; it is absent as metric_failed",
            metric=definition.name,
            value=number,
            lower=definition.lower,
            upper=definition.upper,
        )
        return str(AbsentReason.METRIC_FAILED)
    return number
