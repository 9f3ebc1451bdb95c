"""The link to an MQTT 5 broker, which keeps messages of a topic for the bridge in a session.

FastStream is not used here. When its subscriber stops, it unsubscribes, and the broker keeps nothing for a bridge that
is away. Its client closes the connection when a broker has more messages in flight than the client asked for. Mosquitto
2.0.11 does so, and then no message arrives any more.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import structlog
from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.certificates import tls_context
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.telemetry.log_limit import LogLimit

from .addresses import BrokerAddress
from .links import CONNECT_S, BrokerAwayError, Outgoing, Received, Take, TopicMissingError, close_all

SESSION_S: Final = 7 * 24 * 3600
"""Seconds for which the broker is asked to keep the session of a bridge that is away."""
KEEPALIVE_S: Final = 10
"""Seconds of silence after which bridge and broker ask each other for a sign of life."""
MOST_IN_FLIGHT: Final = 65_535
AT_LEAST_ONCE: Final = 1
"""QoS 1."""

_NOBODY: Final = 0x10
"""Reason code of a message whose topic has no subscriber, so that the broker has dropped it."""
_TAKEN_OVER: Final = 0x8E
"""Reason code with which the broker ends a connection whose session another client took over."""
_IF_NEW: Final = 1
"""Retained messages come with a new subscription only, and not at each connection."""

log = structlog.get_logger("ragtide.bridge")


class MqttLink:
    """A link to a topic, or to a topic filter.

    The client works in a thread of its own; its callbacks continue in the event loop.

    Args:
        group: names the session at the broker, together with the topic.
        batch: most messages of a batch. The broker is asked for at most twice as many in flight.
    """

    errors: tuple[type[Exception], ...] = (OSError, TimeoutError)

    def __init__(self, address: BrokerAddress, group: str, batch: int) -> None:
        self._address = address
        self._session = f"{group}-{blake2b(address.topic.encode(), digest_size=4).hexdigest()}"
        self._batch = batch
        self._loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._connected: asyncio.Future[bool] = self._loop.create_future()
        self._ended: asyncio.Future[ReasonCode] = self._loop.create_future()
        self._subscribed: asyncio.Future[ReasonCode] = self._loop.create_future()
        self._confirmed: dict[int, asyncio.Future[ReasonCode]] = {}
        self._messages: asyncio.Queue[MQTTMessage] = asyncio.Queue()
        self._taking: asyncio.Task[None] | None = None
        self._limit = LogLimit()

    async def open(self, take: Take | None) -> None:
        """Connect, and begin to take messages if there is a `take`."""
        client = self._client = self._new_client(keeps_session=take is not None)
        host, _, port = self._address.hosts[0].rpartition(":")
        properties = _properties(PacketTypes.CONNECT)
        if take is not None:
            properties.SessionExpiryInterval = SESSION_S
            properties.ReceiveMaximum = min(2 * self._batch, MOST_IN_FLIGHT)
        connect: Callable[[], object] = partial(
            client.connect, host.strip("[]"), int(port), KEEPALIVE_S, clean_start=take is None, properties=properties
        )
        async with asyncio.timeout(2 * CONNECT_S):
            await asyncio.to_thread(connect)
            client.loop_start()
            is_resumed = await self._connected
            if take is not None:
                await self._subscribe(client, take, is_resumed=is_resumed)

    def _new_client(self, *, keeps_session: bool) -> Client:
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._session if keeps_session else "",
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = CONNECT_S
        if self._address.username:
            client.username_pw_set(self._address.username, self._address.password or None)
        if self._address.tls:
            client.tls_set_context(tls_context())

        # In the thread of the client.
        def on_connect(_: Client, __: Any, flags: ConnectFlags, code: ReasonCode, ___: Any) -> None:
            self._loop.call_soon_threadsafe(self._set_connected, code, flags.session_present)

        def on_disconnect(_: Client, __: Any, ___: DisconnectFlags, code: ReasonCode, ____: Any) -> None:
            self._loop.call_soon_threadsafe(self._set_ended, code)

        def on_subscribe(_: Client, __: Any, ___: int, codes: list[ReasonCode], ____: Any) -> None:
            self._loop.call_soon_threadsafe(_set, self._subscribed, codes[0])

        def on_publish(_: Client, __: Any, mid: int, code: ReasonCode, ___: Any) -> None:
            self._loop.call_soon_threadsafe(lambda: _set(self._confirmed.pop(mid, None), code))

        def on_message(_: Client, __: Any, message: MQTTMessage) -> None:
            self._loop.call_soon_threadsafe(self._messages.put_nowait, message)

        client.on_connect, client.on_disconnect, client.on_subscribe = on_connect, on_disconnect, on_subscribe
        client.on_publish, client.on_message = on_publish, on_message
        return client

    def _set_connected(self, code: ReasonCode, is_resumed: bool) -> None:
        if self._connected.done():
            return
        if code.is_failure:
            self._connected.set_exception(BrokerAwayError(f"it refuses the connection: {code}"))
        else:
            self._connected.set_result(is_resumed)

    def _set_ended(self, code: ReasonCode) -> None:
        _set(self._ended, code)
        error = BrokerAwayError(f"the connection is closed: {code}")
        waiting_for: list[asyncio.Future[Any]] = [self._connected, self._subscribed, *self._confirmed.values()]
        for waiting in waiting_for:
            if not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # retrieved: nothing may wait for it

    async def _subscribe(self, client: Client, take: Take, *, is_resumed: bool) -> None:
        if not is_resumed:
            log.warning(
                "the broker begins a session for this bridge: earlier messages do not come",
                topic=self._address.shown,
                session=self._session,
            )
        # Before the subscription is confirmed, the messages of the session may come.
        self._taking = asyncio.create_task(self._take_all(client, take))
        client.subscribe(self._address.topic, options=SubscribeOptions(qos=AT_LEAST_ONCE, retainHandling=_IF_NEW))
        code = await self._subscribed
        if code.is_failure:
            raise self._refused(f"the broker refuses the subscription: {code}")
        if code.value != AT_LEAST_ONCE:
            raise self._refused("the broker grants QoS 0 only, with which messages are lost")

    async def _take_all(self, client: Client, take: Take) -> None:
        while True:
            messages = [await self._messages.get()]
            with suppress(asyncio.QueueEmpty):
                while len(messages) < self._batch:
                    messages.append(self._messages.get_nowait())
            if not all(message.qos for message in messages):
                self._limit.warning(
                    log,
                    "qos",
                    "messages come with QoS 0, so the broker may lose them: publish with QoS 1",
                    topic=self._address.shown,
                )
            if not await take([Received(bytes(message.payload), _name(message)) for message in messages]):
                return  # nothing is taken any more, and what was not acknowledged comes again
            for message in messages:
                client.ack(message.mid, message.qos)

    async def check(self) -> None:
        """Return if the broker is connected.

        Raises:
            ConfigurationError: another client took the session over.
        """
        if self._taking is not None and self._taking.done():
            self._taking.result()  # a defect must not end the taking in silence
        if not self._ended.done():
            return
        code = self._ended.result()
        if code.value == _TAKEN_OVER:
            raise ConfigurationError(
                f"{self._address.shown}: another client took over the session {self._session}: give each bridge "
                f"a --group of its own, and share the messages by $share/NAME/ before the topic"
            )
        raise BrokerAwayError(f"the connection is closed: {code}")

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages with QoS 1; the broker has each when it has confirmed it."""
        client = self._client
        if client is None or self._ended.done():
            raise BrokerAwayError("the connection is closed")
        confirmed: list[asyncio.Future[ReasonCode]] = []
        for message in messages:
            properties = _properties(PacketTypes.PUBLISH)
            properties.ContentType = "application/json"
            properties.UserProperty = [("message-id", message.message_id), ("key", message.key)]
            info = client.publish(self._address.topic, message.body, qos=AT_LEAST_ONCE, properties=properties)
            # The callback runs in this loop, so it comes later.
            self._confirmed[info.mid] = self._loop.create_future()
            confirmed.append(self._confirmed[info.mid])
        for code in await asyncio.gather(*confirmed):
            if code.is_failure:
                raise BrokerAwayError(f"it refuses a message: {code}")
            if code.value == _NOBODY:
                self._limit.warning(
                    log,
                    "nobody",
                    "the broker drops messages, because nothing is subscribed to the topic",
                    topic=self._address.shown,
                )

    async def close(self) -> None:
        """Disconnect, without unsubscribing: the broker keeps the session, and messages for it."""
        if self._taking is not None:
            await end(self._taking)
        if self._client is not None:
            self._client.disconnect()
            await close_all(partial(asyncio.to_thread, self._client.loop_stop))

    def _refused(self, why: str) -> TopicMissingError:
        return TopicMissingError(f"{self._address.shown}: {why}: correct the topic, or the rights of the user")


def _properties(packet: int) -> Any:
    make: Any = Properties  # its checks of names make it untyped
    return make(packet)


def _set(waiting: asyncio.Future[ReasonCode] | None, code: ReasonCode) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(code)


def _name(message: MQTTMessage) -> str:
    """Return the name of a message: its id, or a digest, because MQTT has no lasting number for a message."""
    message_id = dict(getattr(message.properties, "UserProperty", ())).get("message-id")
    if message_id:
        return f"id/{message_id}"
    return f"digest/{blake2b(message.topic.encode() + b'/' + message.payload, digest_size=16).hexdigest()}"
