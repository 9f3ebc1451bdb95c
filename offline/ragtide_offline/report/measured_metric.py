"""A metric with its version, range and labeler: only scores measured in the same way can be compared."""

from typing import NamedTuple

from ragtide_schemas import METRICS, Kind, Measure, MetricDeclaration, MetricDefinition


class MeasuredMetric(NamedTuple):
    """A metric, its version and range, and the id of the labeler."""

    metric: str
    measure: Measure | None
    profile: str
    labeler: str
    labeler_version: str

    @property
    def comparable(self) -> tuple[str, Measure | None, str]:
        """Equal for scores that differ only in the labeler."""
        return self[:3]

    @property
    def definition(self) -> MetricDefinition | None:
        """Definition of the metric; None for a metric between 0 and 1 without a definition."""
        if self.measure is None:
            return METRICS.get(self.metric)
        return MetricDeclaration(**self.measure._asdict()).definition(self.metric)

    @property
    def holds_counts(self) -> bool:
        """Whether its scores are counts."""
        return self.definition is not None and self.definition.kind is Kind.DISTRIBUTIVE
