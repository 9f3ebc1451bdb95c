"""Takes messages of a broker into Redis. When a message is acknowledged, its interactions are in their stream.

The order of the steps: publish the interactions (a known id is not added again), write the dead letters, return. Only
then the link acknowledges. A kill in between brings the messages again, with the same ids.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import RedisClusterException

from ragtide_producers.errors import ItemsTooLargeError
from ragtide_producers.ingest.items import COUNTED_BYTES, read_item, sent_interaction
from ragtide_producers.ingest.split_items import ITEM_BYTES, split_items
from ragtide_producers.publishing.batch_publisher import publish_commands
from ragtide_producers.publishing.routes import InteractionRoute, PublishCommand
from ragtide_runtime.processes.waiting import Backoff, sleep_or_stop
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_schemas import DeadLetter, InvalidEntryError, Reason
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.plain_values import LeftOut
from ragtide_schemas.printable import printable

from .addresses import BrokerAddress
from .links import Received
from .telemetry import ROLE, BridgeTelemetry

MESSAGE_ITEMS: Final = 10_000
"""Most interactions of one message."""
ROUND_TRIP: Final = 200
"""Most interactions that one round trip publishes."""
WANTED: Final = "send an object, a list or lines of objects"
LONGEST_PAUSE_S: Final = 2.0
"""Most seconds between two tries while a stream is full."""

REDIS_ERRORS: Final = (RedisError, RedisClusterException, OSError)


class StoppedError(Exception):
    """The bridge stops before the messages are in Redis: they are not acknowledged, and come again."""


class RedisWriter:
    """Writes to Redis until it succeeds, and reports meanwhile why it waits.

    Args:
        redis: client.
        stop: ends waiting for Redis or for room.
        direction: whose health it reports.
    """

    def __init__(
        self, redis: Redis, settings: Settings, telemetry: BridgeTelemetry, stop: asyncio.Event, direction: str
    ) -> None:
        self._redis = redis
        self._layout = settings.layout
        self._telemetry = telemetry
        self._stop = stop
        self._direction = direction
        self._outage = redis_outage(redis).attempt("sending messages" if direction != "from" else "taking messages")

    async def reject(self, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters.

        Args:
            letters: what cannot be used.

        Raises:
            StoppedError: the bridge stops first.
        """
        pause = Backoff(longest_s=LONGEST_PAUSE_S)
        for letter in letters:
            self._telemetry.rejected(letter)
            partition = self._layout.partition_of(letter.pipeline, letter.entry_id) if letter.pipeline else 0
            stream = Streams(self._layout.prefix, partition).dead_letters
            while True:
                try:
                    await self._redis.xadd(stream, {DATA_FIELD: letter.encode()})
                except REDIS_ERRORS as error:
                    await self.redis_failed(error, pause)
                else:
                    self._outage.succeeded()
                    break

    async def redis_failed(self, error: BaseException, pause: Backoff) -> None:
        """Wait after an error of Redis.

        Args:
            pause: between tries.

        Raises:
            StoppedError: the bridge stops first.
        """
        self._outage.failed(error)
        await self.wait(f"Redis failed: {error}", pause)

    async def wait(self, why: str, pause: Backoff) -> None:
        """Wait before the next try; the broker keeps its messages meanwhile.

        Args:
            pause: between tries.

        Raises:
            StoppedError: the bridge stops first.
        """
        self._telemetry.loops[self._direction].failed(why)
        if await sleep_or_stop(self._stop, pause.pause_s()):
            raise StoppedError


class Intake(RedisWriter):
    """Publishes the interactions of messages.

    Args:
        redis: client.
        telemetry: counts items.
        stop: ends waiting for Redis or for room.
    """

    def __init__(
        self, redis: Redis, settings: Settings, address: BrokerAddress, telemetry: BridgeTelemetry, stop: asyncio.Event
    ) -> None:
        super().__init__(redis, settings, telemetry, stop, "from")
        self._address = address
        self._route = InteractionRoute.of(settings)

    async def take(self, messages: Sequence[Received]) -> None:
        """Return once all interactions of the messages are in their stream, or among the dead letters.

        Raises:
            StoppedError: the bridge stops first.
        """
        size = sum(len(message.body) for message in messages)
        small = size <= COUNTED_BYTES
        items, left_out = self._read(messages) if small else await asyncio.to_thread(self._read, messages)
        outcomes: Counter[str] = Counter()
        if left_out:
            outcomes["left_out"] += left_out.total()
            self._telemetry.values_left_out(left_out)
        commands = [item for item in items if isinstance(item, PublishCommand)]
        for first in range(0, len(commands), ROUND_TRIP):
            outcomes += await self._publish(commands[first : first + ROUND_TRIP])
        letters = [item for item in items if isinstance(item, DeadLetter)]
        if letters:
            await self.reject(letters)
            outcomes["dead_letter"] += len(letters)
        self._telemetry.taken(outcomes)

    def _read(self, messages: Sequence[Received]) -> tuple[list[PublishCommand | DeadLetter], LeftOut]:
        left_out = LeftOut()
        items = [item for message in messages for item in read_message(message, self._address, self._route, left_out)]
        return items, left_out

    async def _publish(self, commands: Sequence[PublishCommand]) -> Counter[str]:
        outcomes: Counter[str] = Counter()
        waiting, pause = list(commands), Backoff(longest_s=LONGEST_PAUSE_S)
        while waiting:
            try:
                publications = await publish_commands(self._redis, self._route, waiting)
            except REDIS_ERRORS as error:
                await self.redis_failed(error, pause)
                continue
            self._outage.succeeded()
            for publication in filter(None, publications):
                is_dropped = publication.dropped is not None
                outcomes["dropped" if is_dropped else "published" if publication.added else "duplicate"] += 1
            full = [command for command, publication in zip(waiting, publications, strict=True) if publication is None]
            if len(full) < len(waiting):
                pause.succeeded()
            waiting = full
            if waiting:
                outcomes["waited"] += len(waiting)
                await self.wait("the stream has no room: start workers, or raise interactions_cap", pause)
        return outcomes


def read_message(
    message: Received, address: BrokerAddress, route: InteractionRoute, left_out: LeftOut
) -> list[PublishCommand | DeadLetter]:
    """Return the interactions of a message; a dead letter for each item that is none, or for the whole message.

    A message that breaks off has the interactions before that place, and a dead letter.

    Args:
        message: an object, a list of objects, or lines of objects, as `POST /v1/interactions` takes them.
        left_out: counts values that are left out of items.
    """
    read: list[PublishCommand | DeadLetter] = []
    items: list[bytes] = []
    try:
        items.extend(_items(message.body))
    except (ItemsTooLargeError, ValueError) as error:
        reason = Reason.TOO_LARGE if isinstance(error, ItemsTooLargeError) else Reason.NOT_JSON
        place = f"after item {len(items) - 1}: " if items else ""
        detail = f"the message is not the JSON of interactions ({place}{error}): {WANTED}"
        read.append(dead_letter(message.body, message.entry_id, address, reason, detail))
    if not items and not read:
        detail = f"the message has no items: {WANTED}"
        read.append(dead_letter(message.body, message.entry_id, address, Reason.INVALID, detail))
    # With the body, because a topic of another cluster, or a new one of this name, has the same places.
    digest = blake2b(message.body, digest_size=16).hexdigest()
    key = f"{address.topic}/{message.entry_id}/{digest}"
    for index, item in enumerate(items):
        try:
            interaction = sent_interaction(read_item(item, ITEM_BYTES), source=address.scheme, key=key, index=index)
            left_out.update(interaction.left_out)
            read.append(route.command(interaction))
        except InvalidEntryError as error:
            entry_id = f"{message.entry_id}#{index}" if len(items) > 1 else message.entry_id
            read.append(dead_letter(item, entry_id, address, error.reason, error.detail))
    return read


def dead_letter(body: bytes, entry_id: str, address: BrokerAddress, reason: Reason, detail: str) -> DeadLetter:
    """Return the dead letter of a message or of one of its items.

    Args:
        body: the message or the item.
        entry_id: names it in its topic.
        reason: as a code.
        detail: as a sentence.
    """
    return DeadLetter.of(
        body,
        stream=printable(f"{address.scheme}:{address.topic}")[:NAME_MAX_CHARS],
        entry_id=printable(entry_id)[:NAME_MAX_CHARS],
        reason=reason,
        detail=printable(detail),
        component=ROLE,
    )


def _items(body: bytes) -> Iterable[bytes]:
    lines = [line for line in (line.strip() for line in body.split(b"\n")) if line]
    if len(lines) > 1 and all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
        if len(lines) > MESSAGE_ITEMS:
            raise ItemsTooLargeError(f"it has more than {MESSAGE_ITEMS:,} lines")
        return lines
    return split_items([body], MESSAGE_ITEMS)
