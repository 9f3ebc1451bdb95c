"""The link to a stream of another Redis."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.redis import RedisBroker, StreamSub
from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ragtide_runtime.ownership.ownership import process_name
from ragtide_runtime.redis.consumer_groups import create_group
from ragtide_runtime.redis.entries import START, raw_of
from ragtide_runtime.redis.failures import is_missing
from ragtide_runtime.redis.keys import DATA_FIELD

from .addresses import BrokerAddress
from .links import GRACE_S, BrokerAwayError, ClientLog, Outgoing, Received, Take, TopicMissingError, close_all
from .raw_messages import undecoded, unparsed

COLLECT_MS: Final = 200
CLAIM_MS: Final = 15_000
"""Milliseconds after which entries of a bridge that died come again."""


class RedisLink:
    """A link to a stream.

    Args:
        group: name of the consumer group.
        batch: most entries of a batch.
    """

    errors: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)

    def __init__(self, address: BrokerAddress, group: str, batch: int) -> None:
        self._address = address
        self._group = group
        self._batch = batch
        self._is_consumer = False
        self._redis: Redis = Redis.from_url(address.server)
        self._broker = RedisBroker(
            address.server,
            logger=ClientLog(),
            apply_types=False,
            graceful_timeout=GRACE_S,
        )

    async def open(self, take: Take | None) -> None:
        """Connect, and begin to take messages if there is a `take`."""
        if take is None:
            await self._redis.ping()
            return
        await self.check()
        # FastStream would create the group at the end of the stream.
        await create_group(self._redis, self._address.topic, self._group, START)
        self._is_consumer = True
        self._subscribe(take)
        await self._broker.start()

    def _subscribe(self, take: Take) -> None:
        stream, consumer = self._address.topic, process_name()

        @self._broker.subscriber(
            stream=StreamSub(
                stream,
                group=self._group,
                consumer=consumer,
                batch=True,
                max_records=self._batch,
                polling_interval=COLLECT_MS,
            ),
            ack_policy=AckPolicy.MANUAL,
            parser=unparsed,
            decoder=undecoded,
        )
        async def received(message: StreamMessage[Any]) -> None:
            await self._take(take, message.raw_message)

        # FastStream claims one entry at a time.
        @self._broker.subscriber(
            stream=StreamSub(stream, group=self._group, consumer=consumer, min_idle_time=CLAIM_MS),
            ack_policy=AckPolicy.MANUAL,
            parser=unparsed,
            decoder=undecoded,
        )
        async def abandoned(message: StreamMessage[Any]) -> None:
            raw: Any = message.raw_message
            await self._take(take, {**raw, "data": [raw["data"]]})

    async def _take(self, take: Take, raw: Any) -> None:
        ids = [name.decode() if isinstance(name, bytes) else name for name in raw["message_ids"]]
        bodies = [raw_of(fields) for fields in raw["data"]]
        if await take([Received(body, name) for body, name in zip(bodies, ids, strict=True)]):
            with suppress(*self.errors):
                await self._redis.xack(self._address.topic, self._group, *ids)

    async def check(self) -> None:
        """Return if Redis answers and has the stream and the group; a stream to send to begins with its first entry."""
        if self._address.is_target:
            await self._redis.ping()
            return
        try:
            groups = await self._redis.xinfo_groups(self._address.topic)
        except ResponseError as error:
            if not is_missing(error):
                raise
            raise TopicMissingError(
                f"{self._address.shown}: there is no stream {self._address.topic}: add an entry, or correct the name"
            ) from None
        if self._is_consumer and self._group.encode() not in [group["name"] for group in groups]:
            raise BrokerAwayError(f"the group {self._group} was removed")  # FastStream stops reading in silence then

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Add entries with the field `data`, as ragtide's own streams have it."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for message in messages:
                fields: dict[Any, Any] = {DATA_FIELD: message.body, b"message_id": message.message_id}
                pipe.xadd(self._address.topic, fields)
            # redis-py would quote the message in its error.
            replies = await pipe.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply

    async def close(self) -> None:
        """Disconnect."""
        await close_all(self._broker.stop, self._redis.aclose)
