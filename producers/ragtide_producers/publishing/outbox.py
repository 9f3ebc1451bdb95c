"""A bounded queue of items that Redis does not have yet; it counts everything. No I/O."""

import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from ragtide_schemas import Dropped, Feedback, RagInteraction

from .counts import ProducerCounts

Item = RagInteraction | Feedback
"""Type of the items that an application submits."""


class Sent(Enum):
    """Redis's answer about an item that is in its stream."""

    PUBLISHED = "published"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, eq=False)
class QueuedItem:
    """A submitted item; two of them are never equal, even with equal content."""

    item: Item
    partition: int
    size_bytes: int
    traceparent: str = ""
    """Trace context of where it was submitted; empty for none."""


class Outbox:
    """Takes items from any thread without waiting, and passes them to one sender.

    The lock is held for some microseconds only, and one thread may take it twice: a signal handler or a finalizer that
    submits while its thread is submitting must not stop it.

    Args:
        most: items queued at once.
        most_bytes: bytes queued at once.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[QueuedItem] = deque()
        self._unfinished: set[QueuedItem] = set()
        self._bytes = 0
        self._submitted = 0
        self._accepted = 0
        self._completed = 0
        self._resent = 0
        self._sent: Counter[Sent] = Counter()
        self._dropped: Counter[Dropped] = Counter()
        self._unreported: Counter[tuple[int, Dropped]] = Counter()

    def put(self, item: QueuedItem) -> bool:
        """Return whether there was room for it; if not, it is dropped and counted."""
        with self._changed:
            self._submitted += 1
            full = len(self._unfinished) >= self._most or self._bytes + item.size_bytes > self._most_bytes
            if full:
                self._drop(item.partition, Dropped.QUEUE_FULL)
            else:
                self._accepted += 1
                self._unfinished.add(item)
                self._bytes += item.size_bytes
                self._waiting.append(item)
            self._changed.notify_all()
        return not full

    def refuse(self, partition: int) -> None:
        """Count an item that is invalid, and so never queued."""
        with self._changed:
            self._submitted += 1
            self._drop(partition, Dropped.INVALID)
            self._changed.notify_all()

    def take(self, most: int, timeout_s: float | None, ended: threading.Event) -> list[QueuedItem]:
        """Return the oldest items to send; an empty list after the timeout, or when there is something else to do.

        That is when drops have to be reported, or `ended` is set (call `wake` then).
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._unreported or ended.is_set(), timeout_s)
            if ended.is_set():
                return []
            return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def wake(self) -> None:
        """Make `take` look again whether it is ended."""
        with self._changed:
            self._changed.notify_all()

    def complete(self, outcomes: Iterable[tuple[QueuedItem, Sent | Dropped]]) -> None:
        """Count the outcomes of items; an item that was given up before is not counted again."""
        with self._changed:
            for item, outcome in outcomes:
                if item not in self._unfinished:
                    continue
                self._unfinished.remove(item)
                self._bytes -= item.size_bytes
                self._completed += 1
                if isinstance(outcome, Sent):
                    self._sent[outcome] += 1
                elif outcome in {Dropped.DROP_NEW, Dropped.SAMPLE}:  # the publish script has reported it
                    self._dropped[outcome] += 1
                else:
                    self._drop(item.partition, outcome)
            self._changed.notify_all()

    def complete_again(self, *, resent: int, dropped: Iterable[Dropped]) -> None:
        """Count the outcomes of published interactions that Redis had lost."""
        with self._changed:
            self._resent += resent
            for why in dropped:
                self._sent[Sent.PUBLISHED] -= 1
                self._dropped[why] += 1

    def give_up(self) -> int:
        """Drop all queued items, also those sent without a reply, and return how many there were."""
        with self._changed:
            given_up = len(self._unfinished)
            self._waiting.clear()
            self.complete([(item, Dropped.UNSENT) for item in self._unfinished])
        return given_up

    def unreported(self) -> dict[tuple[int, Dropped], int]:
        """Return drops that Redis does not know of, by partition and reason."""
        with self._changed:
            return dict(self._unreported)

    def reported(self, drops: dict[tuple[int, Dropped], int]) -> None:
        """Note that Redis knows of these now."""
        with self._changed:
            self._unreported.subtract(drops)
            self._unreported += Counter()  # drops zeros
            self._changed.notify_all()

    def wait_complete(self, timeout_s: float) -> bool:
        """Return whether all queued items were completed, and all drops reported, within the timeout."""
        with self._changed:
            wanted = self._accepted
            return self._changed.wait_for(lambda: self._completed >= wanted and not self._unreported, timeout_s)

    def counts(self) -> ProducerCounts:
        """Return all counts, of one moment."""
        with self._changed:
            return ProducerCounts(
                submitted=self._submitted,
                published=self._sent[Sent.PUBLISHED],
                duplicates=self._sent[Sent.DUPLICATE],
                dropped=MappingProxyType(dict(self._dropped)),
                queued=len(self._unfinished),
                resent=self._resent,
            )

    def _drop(self, partition: int, why: Dropped) -> None:
        self._dropped[why] += 1
        self._unreported[partition, why] += 1
