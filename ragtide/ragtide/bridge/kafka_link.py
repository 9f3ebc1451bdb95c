"""The link to Kafka, and to brokers that speak its protocol."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from faststream.exceptions import IncorrectState
from faststream.kafka import KafkaBroker
from faststream.kafka.security import parse_security
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.security import BaseSecurity, SASLPlaintext

from ragtide_runtime.outside.certificates import tls_context
from ragtide_schemas.limits import ENTRY_MAX_BYTES

from .addresses import BrokerAddress
from .links import (
    CONNECT_S,
    GRACE_S,
    BrokerAwayError,
    ClientLog,
    MessageTooLargeError,
    Outgoing,
    Received,
    Take,
    TopicMissingError,
    close_all,
)
from .raw_messages import undecoded, unparsed

MOST_BYTES: Final = 2 * ENTRY_MAX_BYTES
"""Most bytes of a message to send; the topic may take fewer."""
REQUEST_MS: Final = int(2000 * CONNECT_S)
COLLECT_MS: Final = 200
"""Most milliseconds in which a batch is collected."""


class KafkaLink:
    """A link to a topic.

    Args:
        address: of the topic; user and password are those of SASL/PLAIN.
        group: name of the consumer group.
        batch: most messages of a batch.
    """

    errors: tuple[type[Exception], ...] = (KafkaError, IncorrectState, OSError, TimeoutError)

    def __init__(self, address: BrokerAddress, group: str, batch: int) -> None:
        self._address = address
        self._group = group
        self._batch = batch
        context = tls_context() if address.tls else None
        self._security = (
            SASLPlaintext(address.username, address.password, ssl_context=context)
            if address.username
            else BaseSecurity(ssl_context=context)
        )
        self._broker = KafkaBroker(
            list(address.hosts),
            security=self._security,
            logger=ClientLog(),
            apply_types=False,
            client_id=group,
            acks="all",
            allow_auto_create_topics=False,
            max_request_size=MOST_BYTES,
            request_timeout_ms=REQUEST_MS,
            graceful_timeout=GRACE_S,
        )

    async def open(self, take: Take | None) -> None:
        """Connect, and begin to take messages if there is a `take`."""
        # FastStream leaves a producer open that finds no broker.
        admin = AIOKafkaAdminClient(
            bootstrap_servers=list(self._address.hosts),
            client_id=self._group,
            request_timeout_ms=REQUEST_MS,
            **parse_security(self._security),
        )
        try:
            await admin.start()
            await self._find_topic(admin)
        finally:
            await admin.close()
        await self._broker.connect()
        if take is not None:
            self._subscribe(take)
        await self._broker.start()

    def _subscribe(self, take: Take) -> None:
        subscriber = self._broker.subscriber(
            self._address.topic,
            group_id=self._group,
            batch=True,
            batch_timeout_ms=COLLECT_MS,
            max_records=self._batch,
            auto_offset_reset="earliest",
            ack_policy=AckPolicy.MANUAL,
            parser=unparsed,
            decoder=undecoded,
        )

        @subscriber
        async def received(message: StreamMessage[Any]) -> None:
            consumer: Any = subscriber.consumer
            records = message.raw_message
            messages = [Received(record.value or b"", f"{record.partition}/{record.offset}") for record in records]
            if await take(messages):
                # A rebalance may have given the partition away: then the messages come again.
                with suppress(*self.errors):
                    await consumer.commit()
            else:
                # The next commit would pass over this batch: nothing may be read before the link is closed.
                await asyncio.Event().wait()

    async def _find_topic(self, admin: Any) -> None:
        async with asyncio.timeout(CONNECT_S):
            topics = await admin.list_topics()
        if self._address.topic not in topics:
            raise TopicMissingError(
                f"{self._address.shown}: there is no topic {self._address.topic}: create it, or correct the name"
            )

    async def check(self) -> None:
        """Return if a broker answers and has the topic."""
        if not await self._broker.ping(timeout=CONNECT_S):
            raise BrokerAwayError("no broker of the cluster answers")
        await self._find_topic(self._broker.config.admin_client)

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages by their keys; each is there when all replicas in sync have it."""
        await asyncio.gather(*(self._publish(message) for message in messages))

    async def _publish(self, message: Outgoing) -> None:
        try:
            sent: Any = await self._broker.publish(
                message.body,
                self._address.topic,
                key=message.key.encode(),
                headers={"message-id": message.message_id, "content-type": "application/json"},
                no_confirm=True,
            )
            await sent
        except MessageSizeTooLargeError as error:
            raise MessageTooLargeError(message, error) from None

    async def close(self) -> None:
        """Disconnect."""
        await close_all(self._broker.stop)
