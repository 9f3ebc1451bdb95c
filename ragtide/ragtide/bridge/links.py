"""Connections to message brokers: what the bridge needs of each, whatever its client.

A link does not connect again by itself: when its broker fails, the bridge closes it and opens another one. So there is
one law of retries, and no client of a broker waits for ever in silence.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

import structlog

from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.telemetry.log_limit import LogLimit

from .addresses import BrokerAddress, Kind

CONNECT_S: Final = 5.0
"""Most seconds in which a broker answers a new connection."""

GRACE_S: Final = 3.0
"""Most seconds that a link waits at its end for messages that are worked on."""


log = structlog.get_logger("ragtide.bridge")


class TopicMissingError(RagtideError):
    """The broker has no such topic, or refuses it."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message of a broker."""

    body: bytes
    entry_id: str
    """Names the message in its topic, such as partition and offset. A message that comes again has the same name."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message for a broker."""

    body: bytes
    key: str
    """Messages of one key keep their order, where a broker has keys."""
    message_id: str
    """Names the message; one that is sent again has the same name."""


class MessageTooLargeError(Exception):
    """The broker takes no message of this size, however often it is sent.

    Args:
        message: that is too large.
        why: what the broker or its client says.
    """

    def __init__(self, message: Outgoing, why: object) -> None:
        super().__init__(str(why))
        self.message = message


Take = Callable[[Sequence[Received]], Awaitable[bool]]
"""Takes messages; returns whether all are in Redis now, so that they may be acknowledged. It never raises."""


class Link(Protocol):
    """A connection to a topic of a broker."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Errors of the client after which the broker is tried again."""

    async def open(self, take: Take | None) -> None:
        """Connect, and begin to take messages if there is a `take`.

        Raises:
            TopicMissingError: the broker has no such topic, or refuses it.
        """

    async def check(self) -> None:
        """Return if the broker answers and still has the topic; raise one of `errors` or `TopicMissingError` if not."""

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages, and return when the broker has all of them.

        Raises:
            MessageTooLargeError: the broker never takes one of them; others may have been sent.
        """

    async def close(self) -> None:
        """Disconnect; messages that were taken but not acknowledged come again."""


class BrokerAwayError(ConnectionError):
    """The broker no longer answers."""


class ClientLog:
    """The log of FastStream: of its messages only the errors, of many only some.

    FastStream swallows an error of a handler or of its own; without this line it would be silent.
    """

    def __init__(self) -> None:
        self._limit = LogLimit()

    def log(self, level: int, msg: Any, /, *, exc_info: Any = None, extra: Mapping[str, Any] | None = None) -> None:
        """Log an error.

        Args:
            level: as that of `logging`.
            msg: the message.
            exc_info: its exception.
            extra: its fields, which may quote a message, and are left out.
        """
        del extra
        if level >= logging.ERROR:
            # Not the message: it may quote the body of a message, or a URL.
            kind = type(exc_info).__name__ if isinstance(exc_info, BaseException) else str(msg).partition(":")[0][:60]
            self._limit.warning(log, kind, "the client of the broker failed", error=kind)


async def close_all(*closes: Callable[[], Awaitable[Any]]) -> None:
    """Close the parts of a link, each for at most `GRACE_S` and whatever its client raises; none must stay open.

    Args:
        closes: close one part each.
    """
    for close in closes:
        with suppress(Exception):
            async with asyncio.timeout(GRACE_S):
                await close()


_MODULES: Final[dict[Kind, tuple[str, str]]] = {
    "kafka": ("kafka_link", "KafkaLink"),
    "mqtt": ("mqtt_link", "MqttLink"),
    "nats": ("nats_link", "NatsLink"),
    "rabbit": ("rabbit_link", "RabbitLink"),
    "redis": ("redis_link", "RedisLink"),
}


def link_class(kind: Kind) -> Callable[[BrokerAddress, str, int], Link]:
    """Return the class of links to a kind of broker: of an address, the name of the consumer, and a size of batches.

    Raises:
        ConfigurationError: the client of the broker is not installed.
    """
    module, name = _MODULES[kind]
    try:
        cls: Callable[[BrokerAddress, str, int], Link] = getattr(import_module(f".{module}", __package__), name)
    except ImportError as error:
        extra = "service" if kind == "redis" else kind
        raise ConfigurationError(
            f"the bridge to {kind} needs a package that is not installed: pip install 'ragtide[{extra}]'"
        ) from error
    return cls
