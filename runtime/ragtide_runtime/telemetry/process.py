"""The health and the metrics of the roles of one process."""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from .health import Health


@dataclass(frozen=True, slots=True)
class ProcessTelemetry:
    """Health and metrics of the roles of one process. Neither is global, so two runs in one process never mix."""

    health: Health = field(default_factory=Health)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
