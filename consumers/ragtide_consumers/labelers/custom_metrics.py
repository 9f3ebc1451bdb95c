"""Metrics of the user's own: a definition, and a function from an interaction and its labels to a number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite

import structlog

from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import MetricDeclaration, MetricDefinition, RagInteraction, declaration_of

from ..metrics.scores import Absent, AbsentReason
from .protocol import Labeler, Labeling, Labels

Compute = Callable[[RagInteraction, Sequence[Labels]], float | Absent | AbsentReason | None]
"""Returns the value of one interaction within the metric's range; `Absent` with a reason, or None, without one."""

log = structlog.get_logger("ragtide.metrics")

log_limit = LogLimit()
"""A metric that fails does so for every interaction: the log says it once a minute."""


@dataclass(frozen=True)
class CustomMetric:
    """A metric of your own.

    Install it under the entry point group `ragtide.metrics`, or name it in the setting `metrics` as
    `module:attribute`, for the workers. Each metric event carries its range, so no other process needs it.

    Raises: ValueError if the name is that of one of ragtide's own metrics, or the version is empty.

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
    ...     version="2",
    ... )
    """

    definition: MetricDefinition
    compute: Compute
    version: str = "1"
    """Another one whenever values may differ: values of two versions are never mixed in one estimate."""

    def __post_init__(self) -> None:
        """Check that the metric can be declared."""
        _ = self.declaration

    @cached_property
    def declaration(self) -> MetricDeclaration:
        """Declaration of the metric, as metric events carry it."""
        return declaration_of(self.definition, self.version)


class WithMetrics:
    """A labeler that adds the user's own metrics to another labeler's scores. A metric that fails is absent."""

    def __init__(self, labeler: Labeler, metrics: Sequence[CustomMetric]) -> None:
        self._labeler = labeler
        self._metrics = metrics
        self._declared = {metric.definition.name: metric.declaration for metric in metrics}

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
        """Return the labeler's scores and the user's own; for the part that a judge labeled, from its labels."""
        labeling = await self._labeler.label(interaction)
        judged = labeling.judged
        if judged is not None:
            judged = replace(judged, labeling=self._joined(interaction, judged.labeling, _skipped(judged.labeling)))
        joined = self._joined(interaction, labeling)
        return replace(joined, judged=judged, declared={**labeling.declared, **self._declared})

    def _joined(self, interaction: RagInteraction, labeling: Labeling, skipped: str | None = None) -> Labeling:
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
    """Return why there are no labels of a judge; None if there are."""
    if judged.labels or judged.scores:
        return None
    return next(iter(judged.absent.values()), None)


def _value(metric: CustomMetric, interaction: RagInteraction, labels: Sequence[Labels]) -> float | str:
    """Return the value of a metric, or the reason why there is none."""
    definition = metric.definition
    try:
        value = metric.compute(interaction, labels)
        if value is None:
            return str(AbsentReason.UNDEFINED)
        if isinstance(value, Absent | AbsentReason):
            return str(value.reason if isinstance(value, Absent) else value)
        number = float(value)
    except Exception as error:  # noqa: BLE001 - it is a user's code: an error in it must not stop the worker
        log_limit.warning(
            log,
            (definition.name, type(error)),
            "a metric of yours failed; it is absent as metric_failed",
            metric=definition.name,
            error=f"{type(error).__name__}: {error}",
        )
        return str(AbsentReason.METRIC_FAILED)
    if not (isfinite(number) and definition.lower <= number <= definition.upper):
        log_limit.warning(
            log,
            (definition.name, "range"),
            "a metric of yours left its range; it is absent as metric_failed",
            metric=definition.name,
            value=number,
            lower=definition.lower,
            upper=definition.upper,
        )
        return str(AbsentReason.METRIC_FAILED)
    return number
