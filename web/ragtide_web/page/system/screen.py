"""The system on the page: how full streams are, which processes run, and what was lost. No clock, no I/O."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragtide_aggregator.checkpoint.commit import ESTIMATES_CAP
from ragtide_aggregator.service.trimming import DEAD_LETTERS_CAP
from ragtide_runtime.redis.backlog import COUNT_CAP
from ragtide_runtime.settings.model import Settings

from .reading import FULL, PartitionOwners, SeenWorker, SystemFacts

PARTITIONS_SHOWN: Final = 64
"""Most partitions in the table; those with the oldest waiting entries."""
WORKERS_SHOWN: Final = 100


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


@dataclass(frozen=True, slots=True)
class SystemView:
    """The numbers and words of the screen."""

    facts: SystemFacts
    waiting: int
    oldest_s: float
    events_waiting: int
    events_at_least: bool
    """Whether there are more metric events than were counted."""
    events_oldest_s: float
    present: int
    """Workers that have read within the last minute."""
    workers: Sequence[SeenWorker]
    partitions: Sequence[PartitionOwners]
    owned: int
    """Partitions with an aggregator."""
    fills: Sequence[StreamFill]
    dropped: Sequence[tuple[str, int]]
    """Number of dropped entries by reason, the largest first."""


def system_view(facts: SystemFacts, settings: Settings) -> SystemView:
    """Return the numbers of the screen."""
    backlogs = [partition.backlog for partition in facts.partitions]
    dropped: Counter[str] = Counter()
    for backlog in backlogs:
        dropped.update(backlog.dropped)
    oldest_first = sorted(
        facts.partitions,
        key=lambda partition: (
            -max(partition.backlog.oldest_s, partition.backlog.events_oldest_s),
            partition.partition,
        ),
    )
    return SystemView(
        facts=facts,
        waiting=sum(backlog.waiting for backlog in backlogs),
        oldest_s=max((backlog.oldest_s for backlog in backlogs), default=0.0),
        events_waiting=sum(backlog.events_waiting for backlog in backlogs),
        events_at_least=any(backlog.events_waiting >= COUNT_CAP for backlog in backlogs),
        events_oldest_s=max((backlog.events_oldest_s for backlog in backlogs), default=0.0),
        present=sum(worker.is_present for worker in facts.workers),
        workers=facts.workers[:WORKERS_SHOWN],
        partitions=sorted(oldest_first[:PARTITIONS_SHOWN], key=lambda owners: owners.partition),
        owned=sum(partition.aggregator is not None for partition in facts.partitions),
        fills=_fills(facts, settings),
        dropped=sorted(dropped.items(), key=lambda item: (-item[1], item[0])),
    )


def _fills(facts: SystemFacts, settings: Settings) -> list[StreamFill]:
    caps = {
        "interactions": settings.interactions_cap,
        # Workers pause at this number of events that wait; aggregated events that are kept come on top.
        "metrics": settings.events_cap + settings.events_keep,
        "feedback": None,
        "estimates": ESTIMATES_CAP,
        "alerts": settings.alert_cap,
        "dead_letters": DEAD_LETTERS_CAP,
    }
    lengths = {name: [partition.backlog.lengths[name] for partition in facts.partitions] for name in caps}
    return [StreamFill(name, sum(of), max(of, default=0), caps[name]) for name, of in lengths.items()]
