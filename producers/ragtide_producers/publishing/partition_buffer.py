"""The background sender's buffer of one partition: items to send next, and items to send again after a loss. No I/O.

A power cut or a failover can make Redis lose its last writes, never something in between. So the newest entry that the
buffer knows of is a durability probe: if Redis no longer knows its id, Redis has lost something. The probe is looked up
in the same round trip as the next batch, and once more when `keep_s` have passed without a batch.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ragtide_runtime.redis.log import order
from ragtide_schemas import Dropped

from .batch_publisher import BATCH
from .outbox import QueuedItem, Sent
from .publish_command import Publication, PublishCommand


@dataclass(slots=True)
class _Waiting:
    """A command that is still to be sent."""

    command: PublishCommand
    item: QueuedItem | None
    """None if Redis had confirmed it before, and then lost it."""
    tried: bool = False
    """Sent before without a reply."""


@dataclass(slots=True)
class RoundTrip:
    """The outcomes of one round trip."""

    outcomes: list[tuple[QueuedItem, Sent | Dropped]] = field(default_factory=list)
    """Outcomes of items that were sent for the first time."""
    resent: int = 0
    """Number of items that were added again."""
    dropped_again: list[Dropped] = field(default_factory=list)
    """Reasons why other lost items were not added again."""
    lost: int = 0
    """Number of items to send again, because Redis lost something."""
    full: bool = False
    """Whether the stream had no room."""


class PartitionBuffer:
    """The items to send to one partition, and the items that were sent last.

    Args:
        keep_s: seconds for which an item is kept after Redis confirmed it; 0 keeps nothing.
        safe_s: seconds after which an item must not be sent again, since Redis may have forgotten its id.
        most: most items kept.
        most_bytes: most bytes of them.
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
        """Take items to send."""
        self._waiting.extend(_Waiting(command, item) for item, command in items)

    @property
    def check_at(self) -> float | None:
        """When to look up the probe; None if nothing is kept."""
        return self._confirmed[-1][0] + self._keep_s if self._confirmed else None

    def is_due(self, now: float) -> bool:
        """Return whether there is something to do."""
        return bool(self._waiting) or (self.check_at is not None and now >= self.check_at)

    def batch(self) -> list[PublishCommand]:
        """Return the next batch: empty if only the probe is to be looked up, one command if the stream was full."""
        most = 1 if self._full else BATCH
        return [waiting.command for waiting in (self._waiting[at] for at in range(min(most, len(self._waiting))))]

    @property
    def probe(self) -> PublishCommand | None:
        """The command whose id is looked up with the next batch; None if nothing would be sent again."""
        return self._probe if self._confirmed else None

    def failed(self, count: int) -> None:
        """Note that a batch of this many got no reply: any of it may be in the stream."""
        for at in range(count):
            self._waiting[at].tried = True

    def complete(self, outcomes: Sequence[Publication | None], *, probe_found: bool, now: float) -> RoundTrip:
        """Take the outcomes of a batch.

        Args:
            outcomes: one for each command of the batch; None if the stream had no room.
            probe_found: whether Redis knew the probe; True if there was none.
            now: when the batch was sent, in seconds of a monotonic clock.
        """
        trip = RoundTrip()
        batch = [self._waiting.popleft() for _ in outcomes]
        lost = self._forget(now, probe_found=probe_found)
        trip.lost = len(lost)
        full: list[_Waiting] = []
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if outcome is None:
                full.append(waiting)
                continue
            if outcome.entry_id is not None:
                self._keep(waiting.command, outcome.entry_id, now)
            _complete_one(waiting, outcome, trip)
        self._full = trip.full = bool(full)
        self._waiting.extendleft(reversed([*(_Waiting(command, None) for command in lost), *full]))
        return trip

    def _forget(self, now: float, *, probe_found: bool) -> list[PublishCommand]:
        """Forget commands that are safe by now, or return and forget all commands that may be lost."""
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
        self._confirmed_bytes += command.size_bytes
        while len(self._confirmed) > self._most or self._confirmed_bytes > self._most_bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, command = self._confirmed.popleft()
        self._confirmed_bytes -= command.size_bytes


def _complete_one(waiting: _Waiting, outcome: Publication, trip: RoundTrip) -> None:
    if waiting.item is None:
        trip.resent += outcome.added
        if outcome.dropped is not None:
            trip.dropped_again.append(outcome.dropped)
    elif outcome.dropped is not None:
        trip.outcomes.append((waiting.item, outcome.dropped))
    else:
        # If the item was sent again after a lost reply, "there already" means that the first try went in.
        new = outcome.added or waiting.tried
        trip.outcomes.append((waiting.item, Sent.PUBLISHED if new else Sent.DUPLICATE))
