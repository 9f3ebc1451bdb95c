"""The link to NATS, with JetStream: messages that are acknowledged and come again."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import nats.errors
import nats.js.errors
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.nats import ConsumerConfig, JStream, NatsBroker, NatsToken, NatsUserPassword, PullSub
from faststream.nats.security import NatsSecurity

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.certificates import tls_context

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

COLLECT_S: Final = 0.2
"""Most seconds in which a batch is collected."""
ACK_WAIT_S: Final = 30.0
"""Seconds after which a message that was not acknowledged comes again."""


class _Paced:
    """A subscription whose failures are those that FastStream expects.

    FastStream 0.7.8 fetches from a closed connection again and again without a pause, which stops the event loop. It
    knows the client's timeout only, and not that of asyncio, which the client raises, too: then it would drop the part
    of a batch that it has, which would come again after `ACK_WAIT_S`.
    """

    def __init__(self, subscription: Any) -> None:
        self._subscription = subscription

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subscription, name)

    async def fetch(self, batch: int, timeout: float | None) -> Any:  # noqa: ASYNC109 - the name of FastStream's call
        try:
            return await self._subscription.fetch(batch=batch, timeout=timeout)
        except TimeoutError as error:
            raise nats.errors.TimeoutError from error
        except (nats.errors.ConnectionClosedError, nats.js.errors.ServiceUnavailableError):
            await asyncio.sleep(COLLECT_S)
            raise


class NatsLink:
    """A link to a subject of a JetStream stream.

    Args:
        group: name of the durable consumer.
        batch: most messages of a batch.
    """

    errors: tuple[type[Exception], ...] = (nats.errors.Error, OSError, TimeoutError)

    def __init__(self, address: BrokerAddress, group: str, batch: int) -> None:
        self._address = address
        self._group = group
        self._batch = batch
        self._stream = ""
        self._is_consumer = False
        self._client: Any = None
        self._broker = NatsBroker(
            [f"{'tls' if address.tls else 'nats'}://{host}" for host in address.hosts],
            security=_security(address),
            logger=ClientLog(),
            apply_types=False,
            allow_reconnect=False,
            # For the first connection, too: without them, the client tries a server for two minutes.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=int(CONNECT_S),
            graceful_timeout=GRACE_S,
            drain_timeout=int(GRACE_S),
            error_cb=_ignore,
            name=group,
        )

    async def open(self, take: Take | None) -> None:
        """Connect, and begin to take messages if there is a `take`."""
        if self._address.tls:
            await self._require_tls()
        self._client = await self._broker.connect()
        try:
            self._stream = await self._jetstream().find_stream_name_by_subject(self._address.topic)
        except nats.js.errors.NotFoundError:
            raise self._missing() from None
        except nats.js.errors.ServiceUnavailableError:
            raise TopicMissingError(
                f"{self._address.shown}: this server has no JetStream: start it with `nats-server --jetstream`"
            ) from None
        if take is not None:
            await self._check_consumer()
            self._is_consumer = True
            subscriber = self._subscribe(take)
            await self._broker.start()
            subscriber.subscription = _Paced(subscriber.subscription)
        else:
            await self._broker.start()

    async def _require_tls(self) -> None:
        """Refuse servers without TLS, to which the client would send the password as it is."""
        for host in self._address.hosts:
            name, _, port = host.rpartition(":")
            # The client tries the hosts that do not answer, too.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    reader, writer = await asyncio.open_connection(name.strip("[]"), int(port))
                    try:
                        information = await reader.readline()
                    finally:
                        writer.close()
                if b'"tls_required":true' not in information.replace(b" ", b""):
                    raise nats.errors.Error(f"{host} has no TLS: configure it, or begin the URL with nats://")

    async def _check_consumer(self) -> None:
        """Refuse a consumer of other subjects, which the client would take as it is."""
        try:
            consumer = await self._jetstream().consumer_info(self._stream, self._group)
        except nats.js.errors.NotFoundError:
            return
        subjects = consumer.config.filter_subjects or [consumer.config.filter_subject]
        if any(subject not in {None, "", self._address.topic} for subject in subjects):
            raise ConfigurationError(
                f"{self._address.shown}: the consumer {self._group} of the stream {self._stream} is for "
                f"{', '.join(map(str, subjects))}: give this bridge a --group of its own"
            )

    def _subscribe(self, take: Take) -> Any:
        subscriber = self._broker.subscriber(
            self._address.topic,
            stream=JStream(self._stream, declare=False),
            durable=self._group,
            pull_sub=PullSub(batch_size=self._batch, timeout=COLLECT_S, batch=True),
            config=ConsumerConfig(ack_wait=ACK_WAIT_S, max_ack_pending=10 * self._batch),
            ack_policy=AckPolicy.MANUAL,
            parser=unparsed,
            decoder=undecoded,
        )

        @subscriber
        async def received(message: StreamMessage[Any]) -> None:
            messages = message.raw_message
            names = []
            for raw in messages:
                # A publisher that sends a message again gives it the same id.
                message_id = (raw.headers or {}).get("Nats-Msg-Id")
                names.append(f"id/{message_id}" if message_id else f"{self._stream}/{raw.metadata.sequence.stream}")
            is_taken = await take([Received(raw.data, name) for raw, name in zip(messages, names, strict=True)])
            # If the connection is closed, the messages come again.
            with suppress(*self.errors):
                for raw in messages:
                    await (raw.ack() if is_taken else raw.nak())

        return subscriber

    async def check(self) -> None:
        """Return if the server answers and has the stream and the consumer."""
        if not await self._broker.ping(timeout=CONNECT_S):
            raise BrokerAwayError("the connection is closed")
        try:
            if self._is_consumer:
                await self._jetstream().consumer_info(self._stream, self._group)
            else:
                await self._jetstream().stream_info(self._stream)
        except nats.js.errors.NotFoundError:
            raise self._missing() from None

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages; JetStream drops one whose id it had within its duplicate window."""
        await asyncio.gather(*(self._publish(message) for message in messages))

    async def _publish(self, message: Outgoing) -> None:
        try:
            await self._broker.publish(
                message.body,
                self._address.topic,
                # JetStream drops a message whose id it has in the stream, also if that is of another subject.
                headers={
                    "Nats-Msg-Id": f"{self._address.topic}/{message.message_id}",
                    "key": message.key,
                    "content-type": "application/json",
                },
                stream=self._stream,
                timeout=CONNECT_S,
            )
        except nats.js.errors.NoStreamResponseError:
            raise self._missing() from None
        except nats.errors.MaxPayloadError as error:
            raise MessageTooLargeError(message, error) from None

    async def close(self) -> None:
        """Disconnect."""
        await close_all(self._broker.stop, *([] if self._client is None else [self._client.close]))

    def _jetstream(self) -> Any:
        return self._broker.connection.jetstream(timeout=CONNECT_S)

    def _missing(self) -> TopicMissingError:
        topic = self._address.topic
        return TopicMissingError(
            f"{self._address.shown}: no stream of JetStream has the subject {topic}: "
            f"create one with `nats stream add`, or correct the subject"
        )


def _security(address: BrokerAddress) -> NatsSecurity | None:
    options: dict[str, Any] = {"ssl_context": tls_context()} if address.tls else {}
    # Not in the URLs of the servers, where the client takes the signs as they are.
    if address.password:
        return NatsUserPassword(address.username, address.password, **options)
    if address.username:
        return NatsToken(address.username, **options)
    return NatsSecurity(**options) if options else None


async def _ignore(error: Exception) -> None:
    del error
