"""The background sender's buffer of one partition: items to send next, and items to send again after a loss. No I/O.

After a power cut or a failover Redis may have lost its last writes, but no earlier ones. So the newest confirmed entry
is a durability probe: if Redis no longer knows its id, Redis has lost entries. The probe is looked up in the same round
trip as the next batch, and once more when `keep_s` have passed without a batch.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ragtide_runtime.redis.entries import order
from ragtide_schemas import Dropped

from .batch_publisher import BATCH, first_batch
from .outbox import Sent
from .routes import Publication, PublishCommand, QueuedItem


@dataclass(slots=True)
class _Waiting:
    """A command to send."""

    command: PublishCommand
    item: QueuedItem | None
    """None for a command that Redis confirmed and then lost."""
    tried: bool = False
    """Whether it was sent before, without a reply."""


@dataclass(slots=True)
class RoundTrip:
    """The outcomes of one round trip."""

    outcomes: list[tuple[QueuedItem, Sent | Dropped]] = field(default_factory=list)
    """Outcomes of items without an earlier confirmation."""
    resent: int = 0
    """Number of lost items that were added again."""
    dropped_again: list[Dropped] = field(default_factory=list)
    """Reasons why other lost items were dropped."""
    lost: int = 0
    """Number of items to send again after a loss."""
    full: bool = False
    """Whether the stream had no room."""


class PartitionBuffer:
    """The items to send to one partition, and the most recently confirmed items.

    Args:
        keep_s: seconds for which a confirmed item is kept; 0 keeps no item.
        safe_s: seconds after which an item must not be sent again, because Redis may have deleted its id.
        most: most kept items.
        most_bytes: most bytes of kept items.
    """

    def __init__(self, *, keep_s: float, safe_s: float, most: int, most_bytes: int) -> None:
        self._keep_s = keep_s
        self._safe_s = safe_s
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[_Waiting] = deque()
        self._confirmed: deque[tuple[float, PublishCommand]] = deque()
        self._confirmed_bytes = 0
        self._probe: PublishCommand | None = None
        self._probe_order = (0, 0)
        self._full = False

    def add(self, items: Iterable[tuple[QueuedItem, PublishCommand]]) -> None:
        """Add items to send."""
        self._waiting.extend(_Waiting(command, item) for item, command in items)

    @property
    def check_at(self) -> float | None:
        """Time of the next lookup of the probe; None if no item is kept."""
        return self._confirmed[-1][0] + self._keep_s if self._confirmed else None

    def is_due(self, now: float) -> bool:
        """Return whether a round trip is due."""
        return bool(self._waiting) or (self.check_at is not None and now >= self.check_at)

    def batch(self) -> list[PublishCommand]:
        """Return the next batch: empty for a lookup of the probe only, a single command after a full stream."""
        return first_batch((waiting.command for waiting in self._waiting), 1 if self._full else BATCH)

    @property
    def probe(self) -> PublishCommand | None:
        """The command whose id is looked up with the next batch; None if no item is kept."""
        return self._probe if self._confirmed else None

    def failed(self, count: int) -> None:
        """Mark a batch of `count` commands without a reply, some of which may be in the stream."""
        for at in range(count):
            self._waiting[at].tried = True

    def complete(self, outcomes: Sequence[Publication | None], *, probe_found: bool, now: float) -> RoundTrip:
        """Take the outcomes of a batch.

        Args:
            outcomes: one for each command of the batch; None if the stream had no room.
            probe_found: whether Redis knew the probe; True if there was none.
            now: time of sending, in seconds of a monotonic clock.
        """
        trip = RoundTrip()
        batch = [self._waiting.popleft() for _ in outcomes]
        lost = self._forget(now, probe_found=probe_found)
        trip.lost = len(lost)
        full: list[_Waiting] = []
        entries: set[str] = set()
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if outcome is None:
                full.append(waiting)
                continue
            _complete_one(waiting, outcome, trip, again=outcome.entry_id in entries)
            if outcome.entry_id is not None:
                self._keep(waiting.command, outcome.entry_id, now)
                entries.add(outcome.entry_id)
        self._full = trip.full = bool(full)
        self._waiting.extendleft(reversed([*(_Waiting(command, None) for command in lost), *full]))
        return trip

    def _forget(self, now: float, *, probe_found: bool) -> list[PublishCommand]:
        if probe_found:
            while self._confirmed and self._confirmed[0][0] <= now - self._keep_s:
                self._drop_oldest()
            return []
        lost = [command for at, command in self._confirmed if now - at < self._safe_s]
        self._confirmed.clear()
        self._confirmed_bytes = 0
        self._probe, self._probe_order = None, (0, 0)
        return lost

    def _keep(self, command: PublishCommand, entry_id: str, now: float) -> None:
        if not self._keep_s:
            return
        # Do not use a duplicate as the probe: its old entry survives a loss that removes the new ones.
        if (at := order(entry_id)) > self._probe_order:
            self._probe, self._probe_order = command, at
        self._confirmed.append((now, command))
        self._confirmed_bytes += len(command.payload)
        while len(self._confirmed) > self._most or self._confirmed_bytes > self._most_bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, command = self._confirmed.popleft()
        self._confirmed_bytes -= len(command.payload)


def _complete_one(waiting: _Waiting, outcome: Publication, trip: RoundTrip, *, again: bool) -> None:
    if waiting.item is None:
        trip.resent += outcome.added
        if outcome.dropped is not None:
            trip.dropped_again.append(outcome.dropped)
    elif outcome.dropped is not None:
        trip.outcomes.append((waiting.item, outcome.dropped))
    else:
        # For an item that was sent again after a lost reply, a duplicate means that the first try succeeded.
        new = outcome.added or (waiting.tried and not again)
        trip.outcomes.append((waiting.item, Sent.PUBLISHED if new else Sent.DUPLICATE))
