"""Reads streams with FastStream: one batch subscriber a stream, in one application. Only this file adapts FastStream.

FastStream reads in a consumer group, and starts and stops the application. Three of its parts are replaced:

- The client is ragtide's, which follows failovers; FastStream's client of a cluster stays connected to a dead node. It
  is given as a `ConnectionState` in the public configuration of the broker.
- A read takes fewer entries if they are large, or if their labeler waits; FastStream takes a fixed number.
- Entries are passed on undecoded and unacknowledged. FastStream would decode a batch as a whole, and fail on bytes that
  are not JSON; the worker decodes entry by entry, and acknowledges by script (`results.py`).

FastStream's subscriber of single messages is not used, because it costs more than the labeling.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from faststream import AckPolicy, FastStream
from faststream.redis import RedisBroker, StreamSub
from faststream.redis.configs import ConnectionState
from faststream.redis.message import FAKE_CONSUMER, RedisBatchStreamMessage
from redis import RedisError, ResponseError
from redis.asyncio import Redis

from ragtide_runtime.redis.client import CONNECTIONS, connect_async
from ragtide_runtime.redis.failures import is_missing
from ragtide_runtime.redis.log import ReadSize
from ragtide_runtime.telemetry.outages import Attempt, Outage

from .results import StreamEntry

POLL_MS: Final = 1000
"""Milliseconds that a read waits for entries; it ends as soon as one comes, so a short wait only costs idle workers."""

LIBRARY_LOG: Final = logging.getLogger("ragtide.faststream")
"""Logger of FastStream; its default logger writes to standard error in another format."""


def _shorten_error(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, RedisError | OSError):
        if record.getMessage().startswith("Message fetch error"):
            return False
        record.msg, record.args, record.exc_info = f"{record.getMessage()}: {type(error).__name__}: {error}", (), None
    return True


LIBRARY_LOG.addFilter(_shorten_error)


@dataclass(frozen=True, slots=True)
class Handler:
    """What takes the entries of a stream."""

    take: Callable[[Sequence[StreamEntry]], Awaitable[None]]
    """Takes the entries of each read; the next read waits for its return."""
    most: Callable[[], int]
    """Returns the most entries of the next read."""


class _Reader:
    """A client whose reads in a group are bounded by their handler and in bytes, and report outages."""

    def __init__(self, redis: Redis, group: str, handlers: Mapping[str, Handler], reading: Attempt) -> None:
        self._redis = redis
        self._size = ReadSize(redis, group)
        self._handlers = handlers
        self._reading = reading

    def __getattr__(self, command: str) -> Any:
        return getattr(self._redis, command)

    async def xreadgroup(self, *, streams: Any, count: int, **options: Any) -> Any:
        try:
            most = min(count, *(self._handlers[stream].most() for stream in streams))
            count = await self._size.next(streams, most)
            reply = await self._redis.xreadgroup(streams=streams, count=count, **options)
        except (RedisError, OSError) as error:
            if not (isinstance(error, ResponseError) and is_missing(error)):  # a missing group is no outage
                self._reading.failed(error)
            raise
        self._reading.succeeded()
        return reply


class _Connection(ConnectionState[Any]):
    """The connection of a broker; `connect` may be called again after `disconnect`."""

    def __init__(self, url: str, group: str, handlers: Mapping[str, Handler], reading: Attempt) -> None:
        super().__init__()
        self._url, self._group, self._handlers, self._reading = url, group, handlers, reading
        self._reader: _Reader | None = None

    @property
    def client(self) -> Any:
        return self._reader

    def __bool__(self) -> bool:
        return self._reader is not None

    async def connect(self) -> Any:
        if self._reader is None:
            redis = connect_async(self._url, connections=CONNECTIONS + len(self._handlers))
            self._reader = _Reader(redis, self._group, self._handlers, self._reading)
        return self._reader

    async def disconnect(self) -> None:
        if self._reader is not None:
            await self._reader.aclose()
        self._reader = None


async def _undecoded(raw: Any) -> RedisBatchStreamMessage:
    return RedisBatchStreamMessage(raw_message=raw, body=b"", consumer=FAKE_CONSUMER, group=None)


async def _entries(message: Any) -> list[StreamEntry]:
    raw = message.raw_message
    return [
        StreamEntry(entry_id.decode(), fields) for entry_id, fields in zip(raw["message_ids"], raw["data"], strict=True)
    ]


class StreamApplication(FastStream):
    """Reads streams in a consumer group from `start` to `stop`.

    Args:
        handlers: by stream, what takes its entries.
        group: consumer group, which must exist.
        consumer: name in the group.
        most: most entries of one read, whatever a handler takes.
        grace_s: seconds that `stop` waits for a handler.
        outage: of Redis, which reads that fail are reported to.
    """

    def __init__(
        self,
        url: str,
        handlers: Mapping[str, Handler],
        *,
        group: str,
        consumer: str,
        most: int,
        grace_s: float,
        outage: Outage,
    ) -> None:
        self._broker = RedisBroker(
            apply_types=False,
            logger=LIBRARY_LOG,
            log_level=logging.DEBUG,  # FastStream would log every read twice at INFO; its errors keep their level
            graceful_timeout=grace_s,
        )
        self._broker.config.broker_config.connection = _Connection(
            url, group, handlers, outage.attempt("reading entries")
        )
        super().__init__(self._broker, logger=LIBRARY_LOG)
        self.given_up = asyncio.Event()
        """Set when FastStream stops by itself, for example because the consumer group was removed."""
        for stream, handler in handlers.items():
            source = StreamSub(
                stream, group=group, consumer=consumer, batch=True, max_records=most, polling_interval=POLL_MS
            )
            options: dict[str, Any] = {"parser": _undecoded, "decoder": _entries, "ack_policy": AckPolicy.MANUAL}
            self._broker.subscriber(stream=source, **options)(handler.take)

    @property
    def reading(self) -> bool:
        """Whether every stream is being read. FastStream does not report the outcome of a read."""
        return all(subscriber.running for subscriber in self._broker.subscribers)

    def exit(self) -> None:
        """Note that FastStream asks for a stop of the application."""
        self.given_up.set()
        super().exit()
