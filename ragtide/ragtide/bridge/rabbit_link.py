"""The link to RabbitMQ: messages of a queue."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote

import aio_pika.exceptions
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.rabbit import Channel, RabbitBroker, RabbitQueue
from faststream.security import BaseSecurity

from ragtide_runtime.outside.certificates import tls_context
from ragtide_runtime.processes.waiting import end

from .addresses import BrokerAddress
from .links import (
    CONNECT_S,
    GRACE_S,
    BrokerAwayError,
    ClientLog,
    Outgoing,
    Received,
    Take,
    TopicMissingError,
    close_all,
)
from .raw_messages import undecoded, unparsed


class Gatherer:
    """Takes messages together that wait at the same time. The broker bounds how many wait.

    Args:
        take: takes a batch.
        batch: most messages of a batch.
    """

    def __init__(self, take: Take, batch: int) -> None:
        self._take = take
        self._batch = batch
        self._waiting: asyncio.Queue[tuple[Received, asyncio.Future[bool]]] = asyncio.Queue()
        self._task = asyncio.create_task(self._run())

    async def take(self, message: Received) -> bool:
        """Return whether a message is in Redis now, so that it may be acknowledged."""
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((message, taken))
        return await taken

    async def close(self) -> None:
        """End; messages that still wait are not acknowledged."""
        await end(self._task)
        while not self._waiting.empty():
            _answer([self._waiting.get_nowait()], taken=False)

    async def _run(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            try:
                await asyncio.sleep(0)  # others may be about to wait
                with suppress(asyncio.QueueEmpty):
                    while len(batch) < self._batch:
                        batch.append(self._waiting.get_nowait())
                _answer(batch, taken=await self._take([message for message, _ in batch]))
            except asyncio.CancelledError:
                _answer(batch, taken=False)
                raise


def _answer(batch: Sequence[tuple[Received, asyncio.Future[bool]]], *, taken: bool) -> None:
    for _, waiting in batch:
        if not waiting.done():
            waiting.set_result(taken)


class RabbitLink:
    """A link to a queue.

    Args:
        group: name of the connection.
        batch: most messages of a batch. RabbitMQ sends twice as many before the first is acknowledged.
    """

    errors: tuple[type[Exception], ...] = (aio_pika.exceptions.AMQPError, OSError, TimeoutError, RuntimeError)
    """A channel that was closed raises RuntimeError."""

    def __init__(self, address: BrokerAddress, group: str, batch: int) -> None:
        self._address = address
        self._batch = batch
        self._gatherer: Gatherer | None = None
        self._connection: Any = None
        self._queue = RabbitQueue(address.topic, declare=False)
        self._broker = RabbitBroker(
            address.server,
            security=BaseSecurity(ssl_context=tls_context()) if address.tls else None,
            logger=ClientLog(),
            apply_types=False,
            timeout=CONNECT_S,
            graceful_timeout=GRACE_S,
            default_channel=Channel(prefetch_count=2 * batch, on_return_raises=True),
            app_id=group,
        )

    async def open(self, take: Take | None) -> None:
        """Connect, and begin to take messages if there is a `take`."""
        try:
            self._connection = await self._broker.connect()
        except aio_pika.exceptions.ProtocolSyntaxError:
            # The client reads the server's refusal as a wrong frame.
            space = unquote(self._address.space) or "/"
            raise BrokerAwayError(f"it has no virtual host {space}, or the user may not use it") from None
        await self._find_queue()
        if take is not None:
            self._subscribe(Gatherer(take, self._batch))
        await self._broker.start()

    def _subscribe(self, gatherer: Gatherer) -> None:
        self._gatherer = gatherer

        @self._broker.subscriber(self._queue, ack_policy=AckPolicy.MANUAL, parser=unparsed, decoder=undecoded)
        async def received(message: StreamMessage[Any]) -> None:
            raw = message.raw_message
            # RabbitMQ numbers a message anew each time, so one without an id is named by its digest.
            digest = blake2b(raw.body, digest_size=16).hexdigest()
            name = f"id/{raw.message_id}" if raw.message_id else f"digest/{digest}"
            if await gatherer.take(Received(raw.body, name)):
                # If the channel is closed, the message comes again.
                with suppress(*self.errors):
                    await raw.ack()

    async def _find_queue(self) -> None:
        async with asyncio.timeout(CONNECT_S):
            channel = await self._connection.channel()
            try:
                await channel.declare_queue(self._address.topic, passive=True)
            except aio_pika.exceptions.ChannelNotFoundEntity:
                raise TopicMissingError(
                    f"{self._address.shown}: there is no queue {self._address.topic}: declare it, or correct the name"
                ) from None
            finally:
                with suppress(*self.errors):
                    await channel.close()

    async def check(self) -> None:
        """Return if the server answers and has the queue."""
        if not await self._broker.ping(timeout=CONNECT_S):
            raise BrokerAwayError("the connection is closed")
        await self._find_queue()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages to the queue; each is stored when RabbitMQ has confirmed it."""
        await asyncio.gather(*(self._publish(message) for message in messages))

    async def _publish(self, message: Outgoing) -> None:
        await self._broker.publish(
            message.body,
            self._address.topic,
            message_id=message.message_id,
            headers={"key": message.key},
            content_type="application/json",
            persist=True,
            mandatory=True,
            timeout=CONNECT_S,
        )

    async def close(self) -> None:
        """Disconnect."""
        if self._gatherer is not None:
            await self._gatherer.close()
        # The connection would connect again by itself, and its consumer take messages that nothing acknowledges.
        await close_all(self._broker.stop, *([] if self._connection is None else [self._connection.close]))
