"""Options of the aggregator's service: batch size, commit interval, lease, limits of streams and of the state."""

from dataclasses import dataclass, field

from ..state.state import StateOptions
from .stalls import StallLimits
from .trimming import Caps


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How an aggregator works: batch size, how often it commits, how long its lease is, what it keeps."""

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
    caps: Caps = field(default_factory=Caps)
    stalls: StallLimits = field(default_factory=StallLimits)
