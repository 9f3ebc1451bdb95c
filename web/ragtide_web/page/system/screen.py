"""How full the streams are. No clock, no I/O."""

from dataclasses import dataclass

from ragtide_aggregator.service.trimming import DEAD_LETTERS_CAP
from ragtide_runtime.settings.model import Settings

from .reading import FULL, SystemFacts


@dataclass(frozen=True, slots=True)
class StreamFill:
    """How full a stream is."""

    name: str
    entries: int
    """Entries in all partitions."""
    largest: int
    """Entries in the fullest partition."""
    cap: int | None
    """Most entries of a partition; None for a stream without a setting."""

    @property
    def share(self) -> float | None:
        """Share of the cap that the fullest partition has; at most 1 is drawn."""
        return None if self.cap is None else self.largest / self.cap

    @property
    def drawn(self) -> float:
        """Length of the bar from 0 to 100."""
        return round(100 * min(self.share or 0.0, 1.0), 1)

    @property
    def is_full(self) -> bool:
        """Whether the stream is near its cap."""
        return (self.share or 0.0) >= FULL


def stream_fills(facts: SystemFacts, settings: Settings) -> list[StreamFill]:
    """Return how full the streams are."""
    caps = {
        "interactions": settings.interactions_cap,
        # Workers pause at this number of events that wait; aggregated events that are kept come on top.
        "metrics": settings.events_cap + settings.events_keep,
        "feedback": None,
        "estimates": settings.estimates_cap,
        "alerts": settings.alert_cap,
        "dead_letters": DEAD_LETTERS_CAP,
    }
    lengths = {name: [backlog.lengths[name] for backlog in facts.backlogs] for name in caps}
    return [StreamFill(name, sum(fills), max(fills, default=0), caps[name]) for name, fills in lengths.items()]
