"""What is told of the roles of one process: their health and their metrics."""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from .health import Health


@dataclass(frozen=True, slots=True)
class Observed:
    """Health and metrics of the roles of one process; nothing of it is global, so two runs never mix."""

    health: Health = field(default_factory=Health)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
