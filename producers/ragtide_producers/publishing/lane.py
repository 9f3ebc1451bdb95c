"""The background sender's state of one partition: items to send next, and items to send again after a loss. No I/O.

Redis can lose the last moments before a power cut or a failover, never something in between. So the newest entry that
this lane knows of tells whether anything is lost: its interaction id (the `mark`) is not known any more. The mark is
looked up in the same round trip as the next batch, and once more when `keep_s` have passed without one.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ragtide_schemas import Dropped

from .course import BATCH
from .outbox import Held, Sent
from .publication import Call, Publication, Reply, publication


@dataclass(slots=True)
class _Item:
    call: Call
    held: Held | None
    """None if Redis had confirmed it before, and then lost it."""
    tried: bool = False
    """Sent before without a reply."""


@dataclass(slots=True)
class Settled:
    """The outcome of one round trip."""

    outcomes: list[tuple[Held, Sent | Dropped]] = field(default_factory=list)
    """Outcomes of interactions that were sent for the first time."""
    resent: int = 0
    """Number of interactions that were added again."""
    dropped_again: list[Dropped] = field(default_factory=list)
    """Reasons why other lost interactions were not added again."""
    lost: int = 0
    """Number of interactions to send again, because Redis lost something."""
    full: bool = False
    """Whether the stream had no room."""


class Lane:
    """The interactions to send to one partition, and those that were sent last.

    Args:
        keep_s: seconds for which what was sent is kept after Redis confirmed it; 0 keeps nothing.
        safe_s: seconds after which it must not be sent again, since its id may be forgotten.
        most: most interactions kept.
        most_bytes: most bytes of them.
    """

    def __init__(self, *, keep_s: float, safe_s: float, most: int, most_bytes: int) -> None:
        self._keep_s = keep_s
        self._safe_s = safe_s
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[_Item] = deque()
        self._recent: deque[tuple[float, Call]] = deque()
        self._recent_bytes = 0
        self._mark: Call | None = None
        self._mark_order = (0, 0)
        self._full = False

    def add(self, items: Iterable[tuple[Held, Call]]) -> None:
        """Take interactions to send."""
        self._waiting.extend(_Item(call, held) for held, call in items)

    @property
    def check_at(self) -> float | None:
        """When to look whether what was sent last is still there; None if nothing is kept."""
        return self._recent[-1][0] + self._keep_s if self._recent else None

    def is_due(self, now: float) -> bool:
        """Return whether there is something to do."""
        return bool(self._waiting) or (self.check_at is not None and now >= self.check_at)

    def batch(self) -> list[Call]:
        """Return the next batch: empty if only the mark is to be looked at, one call if the stream was full."""
        most = 1 if self._full else BATCH
        return [item.call for item in (self._waiting[at] for at in range(min(most, len(self._waiting))))]

    @property
    def mark(self) -> Call | None:
        """Call whose id is looked up in the same round trip, before the batch; None if nothing would be sent again."""
        return self._mark if self._recent else None

    def failed(self, count: int) -> None:
        """Note that a batch of this many got no reply: any of it may be in the stream."""
        for at in range(count):
            self._waiting[at].tried = True

    def settle(self, replies: Sequence[Reply], *, mark_is_there: bool, now: float) -> Settled:
        """Take the replies to a batch.

        Args:
            replies: one for each call of the batch.
            mark_is_there: whether the mark was, before the batch; True if there was none to look at.
            now: when the batch was sent, in seconds of a monotonic clock.
        """
        settled = Settled()
        batch = [self._waiting.popleft() for _ in replies]
        lost = self._forget(now, mark_is_there=mark_is_there)
        settled.lost = len(lost)
        full: list[_Item] = []
        for item, reply in zip(batch, replies, strict=True):
            became = publication(item.call, reply)
            if became is None:
                full.append(item)
                continue
            if became.entry_id is not None:
                self._keep(item.call, became.entry_id, now)
            _settle_one(item, became, settled)
        self._full = settled.full = bool(full)
        self._waiting.extendleft(reversed([*(_Item(call, None) for call in lost), *full]))
        return settled

    def _forget(self, now: float, *, mark_is_there: bool) -> list[Call]:
        """Forget calls that are safe by now, or return and forget all calls that may be lost."""
        if mark_is_there:
            while self._recent and self._recent[0][0] <= now - self._keep_s:
                self._drop_oldest()
            return []
        lost = [call for at, call in self._recent if now - at < self._safe_s]
        self._recent.clear()
        self._recent_bytes = 0
        self._mark, self._mark_order = None, (0, 0)
        return lost

    def _keep(self, call: Call, entry_id: str, now: float) -> None:
        if not self._keep_s:
            return
        milliseconds, _, number = entry_id.partition("-")
        order = (int(milliseconds), int(number))
        # Do not use a duplicate as the mark: its old entry survives a loss that removes the new ones.
        if order > self._mark_order:
            self._mark, self._mark_order = call, order
        self._recent.append((now, call))
        self._recent_bytes += call.size_bytes
        while len(self._recent) > self._most or self._recent_bytes > self._most_bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, call = self._recent.popleft()
        self._recent_bytes -= call.size_bytes


def _settle_one(item: _Item, became: Publication, settled: Settled) -> None:
    if item.held is None:
        settled.resent += became.added
        if became.dropped is not None:
            settled.dropped_again.append(became.dropped)
    elif became.dropped is not None:
        settled.outcomes.append((item.held, became.dropped))
    else:
        # If the item was sent again after a lost reply, "there already" means that the first try went in.
        new = became.added or item.tried
        settled.outcomes.append((item.held, Sent.PUBLISHED if new else Sent.DUPLICATE))
