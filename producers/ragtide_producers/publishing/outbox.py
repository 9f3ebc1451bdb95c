"""The bounded queue of submitted items, with the counts of all outcomes. No I/O."""

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from ragtide_schemas import Dropped
from ragtide_schemas.plain_values import LeftOut, count_left_out

from .routes import QueuedItem

QUEUE_BYTES: Final = 256 * 2**20
"""Most bytes of queued items, by the length of their texts."""


class Sent(Enum):
    """The outcome of an item that is in its stream."""

    PUBLISHED = "published"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class ProducerCounts:
    """Counts of the items of `submit`, or of `submit_feedback`, at one moment.

    `submitted` is always the sum of `published`, `duplicates`, the counts in `dropped`, `sampled_out` and `queued`.
    """

    submitted: int
    """Calls."""
    published: int
    """Items added to their stream."""
    duplicates: int
    """Items that were in their stream already."""
    dropped: Mapping[Dropped, int]
    """Items that are not evaluated, by reason."""
    queued: int
    """Items in the process: waiting, or sent without a reply yet."""
    resent: int
    """Published items that Redis lost and that were sent again; they count once in `published`."""
    sampled_out: int = 0
    """Interactions that the producer's `sample` leaves out; they are not dropped, because others stand for them."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Values that have no plain meaning and were left out of submitted items, by name, such as `metadata.trace`."""


class Outbox:
    """Takes items from any thread without waiting, and passes them to one sender.

    The lock is held for microseconds only. It is reentrant, because a signal handler or a finalizer may submit while
    its thread is submitting.

    Args:
        most: most queued items.
        most_bytes: most queued bytes.
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
        self._sampled_out = 0
        self._sent: Counter[Sent] = Counter()
        self._dropped: Counter[Dropped] = Counter()
        self._unreported: Counter[tuple[int, Dropped]] = Counter()
        self._left_out: LeftOut = Counter()

    def put(self, item: QueuedItem) -> bool:
        """Queue an item and return True, or drop and count it and return False if there is no room."""
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

    def count_values(self, left_out: LeftOut) -> None:
        """Count values that were left out of an item."""
        with self._changed:
            for name, number in left_out.items():
                count_left_out(self._left_out, name, number)

    def leave_out(self) -> None:
        """Count an item that is not in the sample of the traffic, which is never queued."""
        with self._changed:
            self._submitted += 1
            self._sampled_out += 1

    def refuse(self, partition: int) -> None:
        """Count an invalid item, which is never queued."""
        with self._changed:
            self._submitted += 1
            self._drop(partition, Dropped.INVALID)
            self._changed.notify_all()

    def take(self, most: int, timeout_s: float | None, ended: threading.Event) -> list[QueuedItem]:
        """Return the oldest items to send.

        The list is empty after the timeout, when drops must be reported, or when `ended` is set (call `wake` then).
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._unreported or ended.is_set(), timeout_s)
            if ended.is_set():
                return []
            return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def wake(self) -> None:
        """Let `take` check `ended` again."""
        with self._changed:
            self._changed.notify_all()

    def complete(self, outcomes: Iterable[tuple[QueuedItem, Sent | Dropped]]) -> None:
        """Count the outcomes of items; an item that was dropped by `give_up` is not counted again."""
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
        """Drop all queued items, also items sent without a reply, and return their number."""
        with self._changed:
            given_up = len(self._unfinished)
            self._waiting.clear()
            self.complete([(item, Dropped.UNSENT) for item in self._unfinished])
        return given_up

    def unreported(self) -> dict[tuple[int, Dropped], int]:
        """Return the drops that are not yet reported to Redis, by partition and reason."""
        with self._changed:
            return dict(self._unreported)

    def reported(self, drops: dict[tuple[int, Dropped], int]) -> None:
        """Count these drops as reported."""
        with self._changed:
            self._unreported.subtract(drops)
            self._unreported += Counter()  # removes zeros
            self._changed.notify_all()

    def wait_complete(self, timeout_s: float) -> bool:
        """Return whether all queued items are completed, and all drops reported, within the timeout."""
        with self._changed:
            wanted = self._accepted
            return self._changed.wait_for(lambda: self._completed >= wanted and not self._unreported, timeout_s)

    def counts(self) -> ProducerCounts:
        """Return all counts of one moment."""
        with self._changed:
            return ProducerCounts(
                submitted=self._submitted,
                published=self._sent[Sent.PUBLISHED],
                duplicates=self._sent[Sent.DUPLICATE],
                dropped=MappingProxyType(dict(self._dropped)),
                queued=len(self._unfinished),
                resent=self._resent,
                sampled_out=self._sampled_out,
                left_out=MappingProxyType(dict(self._left_out)),
            )

    def _drop(self, partition: int, why: Dropped) -> None:
        self._dropped[why] += 1
        self._unreported[partition, why] += 1
