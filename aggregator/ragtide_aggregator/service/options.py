"""Options of the aggregator's service: batch size, commit interval, lease, limits of streams and of the state."""

from dataclasses import dataclass, field

from ..state.state import StateOptions
from .pipeline_health import HealthLimits
from .quality import QualityOptions
from .trimming import StreamCaps


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The options of an aggregator, from the settings of the deployment."""

    batch: int
    commit_interval_s: float
    lease_s: float
    estimates_cap: int
    confidence: float
    state: StateOptions
    estimates_interval_s: float = 10.0
    """Seconds between two entries of a key on the stream of estimates."""
    feedback_window_s: float = 604_800.0
    split: bool = False
    """Whether pipelines are split over partitions."""
    ticks: bool = True
    """Whether sessions end when traffic stops. A workspace labels recorded answers at a speed of its own, where a pause
    is no silence of users."""
    caps: StreamCaps = field(default_factory=StreamCaps)
    health: HealthLimits = field(default_factory=HealthLimits)
    specimens_ms: int | None = None
    """Milliseconds for which specimens are kept after an alert that names them; None if none are kept."""
    quality: QualityOptions | None = None
    """Estimates and alerts for Prometheus; None if nothing scrapes this process."""
