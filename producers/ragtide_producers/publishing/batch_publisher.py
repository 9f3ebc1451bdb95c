"""Batches of commands: the logic of `publish_many`, which waits for room, and commands of any partitions at once.

`BatchPublisher` has no I/O and no clock, so that synchronous and asynchronous code share it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any

from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import run_scripts
from ragtide_schemas import Feedback

from ..errors import StreamFullError
from .routes import Publication, PublishCommand, Route

BATCH = 500
"""Most interactions in one call of a script, which keeps Redis busy for up to ten milliseconds."""

BATCH_BYTES = 4_000_000
"""Most bytes of interactions in one call of a script, unless one interaction alone has more."""

FIRST_PAUSE_S = 0.01
"""Seconds before a full stream is tried again; doubled each time."""

LONGEST_PAUSE_S = 0.5
"""Most seconds between two tries."""


def first_batch(commands: Iterable[PublishCommand], most: int = BATCH) -> list[PublishCommand]:
    """Return the first commands that one call of a script runs: those of one partition, within the limits."""
    batch = list(islice(commands, most))
    if not batch:
        return batch
    size, partition = 0, batch[0].partition
    for number, command in enumerate(batch):
        size += len(command.payload)
        if command.partition != partition or size > BATCH_BYTES:
            return batch[: max(number, 1)]
    return batch


class BatchPublisher:
    """Divides interactions into batches, each for one partition and so for one hash slot.

    While `batch()` is not empty, send it, pass the outcomes to `complete`, and wait for the seconds that it returns.

    Args:
        commands: commands to send; commands of one pipeline keep their order. A publication stands for an interaction
            that is not sent.
        block_s: seconds to wait for room, counted from the last interaction that found room.
    """

    def __init__(self, layout: Layout, commands: Iterable[PublishCommand | Publication], block_s: float) -> None:
        self._prefix = layout.prefix
        given = list(commands)
        self._outcomes = [None if isinstance(command, PublishCommand) else command for command in given]
        waiting = [(command, place) for place, command in enumerate(given) if isinstance(command, PublishCommand)]
        if layout.partitions > 1:
            # A stable sort: commands of one partition come together and keep their order.
            waiting.sort(key=lambda pair: pair[0].partition)
        self._waiting = deque(command for command, _ in waiting)
        self._places = deque(place for _, place in waiting)
        self._block_s = block_s
        self._waited_s = 0.0
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, random_share=0.0)

    def batch(self) -> list[PublishCommand]:
        """Return the batch to send next; a single command after a full stream, to test whether there is room again."""
        return first_batch(self._waiting, 1 if self._backoff.failing else BATCH)

    def complete(self, outcomes: Sequence[Publication | None]) -> float:
        """Take the outcomes of a batch and return the seconds to wait before the next; 0 while there is room.

        Raises:
            StreamFullError: there was no room for `block_s`.
        """
        full: list[tuple[PublishCommand, int]] = []
        next_command, next_place = self._waiting.popleft, self._places.popleft
        for outcome in outcomes:
            command, place = next_command(), next_place()
            if outcome is None:
                full.append((command, place))
            else:
                self._outcomes[place] = outcome
        self._waiting.extendleft(command for command, _ in reversed(full))
        self._places.extendleft(place for _, place in reversed(full))
        if len(full) < len(outcomes):
            self._waited_s = 0.0
            self._backoff.succeeded()
        if not full:
            return 0.0
        if self._waited_s >= self._block_s:
            stream = Streams(self._prefix, full[0][0].partition).interactions
            raise StreamFullError(
                f"the stream {stream} had no room for {self._block_s:g} s; {len(self._waiting)} of "
                f"{len(self._outcomes)} interactions are not published: start workers, raise interactions_cap, or "
                "choose another producer.policy, then publish all of them again"
            )
        pause_s = min(self._backoff.pause_s(), self._block_s - self._waited_s)
        self._waited_s += pause_s
        return pause_s

    def publications(self) -> list[Publication]:
        """Return the outcome of each interaction, in the order of the commands."""
        return [publication for publication in self._outcomes if publication is not None]


def feedback_batches(layout: Layout, feedback: Iterable[Feedback]) -> Iterator[tuple[str, list[dict[Any, Any]]]]:
    """Yield batches of feedback entries, each for one partition and so for one hash slot."""
    iterator = iter(feedback)
    while taken := list(islice(iterator, BATCH)):
        placed = sorted(
            ((layout.of(item.pipeline, item.interaction_id), item) for item in taken),
            key=lambda pair: pair[0].partition,
        )
        for streams, batch in groupby(placed, key=lambda pair: pair[0]):
            yield streams.feedback, [{DATA_FIELD: item.encode()} for _, item in batch]


async def publish_commands(redis: Redis, route: Route, commands: Sequence[PublishCommand]) -> list[Publication | None]:
    """Publish items and return the outcome of each, in order; None for an item that found no room.

    Raises:
        redis.RedisError: some or all items may not have been published; it is safe to publish all again.
    """
    # A stable sort: items of one partition come together and keep their order.
    order = sorted(range(len(commands)), key=lambda place: commands[place].partition)
    waiting = [commands[place] for place in order]
    calls = []
    while waiting:
        batch = first_batch(waiting)
        calls.append(route.call(batch))
        del waiting[: len(batch)]
    outcomes = chain.from_iterable(await run_scripts(redis, calls) if calls else ())
    by_place = dict(zip(order, outcomes, strict=True))
    return [by_place[place] for place in range(len(commands))]
