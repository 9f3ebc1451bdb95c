"""The course of one call of `publish_many`: the next batch, the wait for room, the outcome of each item.

No I/O and no clock, so that synchronous and asynchronous code share it.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from ragtide_runtime.waiting import Backoff

from ..errors import StreamFullError
from .publication import Call, Publication, Reply, publication

BATCH = 200
"""Interactions sent in one round trip."""

FIRST_PAUSE_S = 0.01
"""Seconds until a full stream is looked at again; doubled each time."""

LONGEST_PAUSE_S = 0.5
"""Most seconds between two looks."""


class Course:
    """Batches to send, each of one partition and so of one hash slot.

    Use: while `batch()` is not empty send it, give the replies to `settle`, and wait as long as that says.

    Args:
        calls: what to publish; of one pipeline, the order is kept.
        block_s: seconds to wait for room, counted anew whenever something found room.
    """

    def __init__(self, calls: Iterable[Call], block_s: float) -> None:
        numbered = enumerate(calls)
        # A stable sort: calls of one partition come together and keep their order.
        self._waiting = deque(sorted(numbered, key=lambda item: item[1].partition))
        self._found: list[Publication | None] = [None] * len(self._waiting)
        self._block_s = block_s
        self._waited_s = 0.0
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, random_share=0.0)

    def batch(self) -> list[Call]:
        """Return the batch to send next; one call if the stream was full, to see whether there is room again."""
        if not self._waiting:
            return []
        most = 1 if self._backoff.failing else BATCH
        partition = self._waiting[0][1].partition
        batch: list[Call] = []
        for _, call in self._waiting:
            if call.partition != partition or len(batch) == most:
                break
            batch.append(call)
        return batch

    def settle(self, replies: Sequence[Reply]) -> float:
        """Take the replies to the batch and return the seconds to wait before the next; 0 while there is room.

        Raises:
            StreamFullError: there was no room for `block_s`.
        """
        settled = [self._waiting.popleft() for _ in replies]
        full = []
        for (number, call), reply in zip(settled, replies, strict=True):
            became = publication(call, reply)
            if became is None:
                full.append((number, call))
            else:
                self._found[number] = became
        self._waiting.extendleft(reversed(full))
        if len(full) < len(settled):
            self._waited_s = 0.0
            self._backoff.succeeded()
        if not full:
            return 0.0
        if self._waited_s >= self._block_s:
            raise StreamFullError(
                f"the stream {full[0][1].keys[0]} had no room for {self._block_s:g} s; {len(self._waiting)} of "
                f"{len(self._found)} interactions are not published: start workers, raise interactions_cap, or choose "
                "another producer.policy, then publish all of them again"
            )
        pause_s = min(self._backoff.pause_s(), self._block_s - self._waited_s)
        self._waited_s += pause_s
        return pause_s

    def publications(self) -> list[Publication]:
        """Return the outcome of each call, in the order of the calls."""
        return [one for one in self._found if one is not None]
