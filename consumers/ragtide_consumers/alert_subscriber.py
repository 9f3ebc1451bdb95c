"""Subscribes to alerts: yields every change of every alert, in the order of its stream."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.entry_ids import START, Entry, order
from ragtide_runtime.redis.log import last_id, read_after, read_last, read_range
from ragtide_runtime.redis.unreadable import Unreadable
from ragtide_runtime.redis.url import RedisHandle, redact, resolve_redis
from ragtide_runtime.settings.model import Settings, settings_of_application
from ragtide_runtime.waiting import Backoff
from ragtide_schemas import Alert

AT_ONCE = 100
"""Most alerts of a partition read at once."""

POLL_MS = 1000
"""Milliseconds that one read waits for alerts."""

LONGEST_PAUSE_S: Final = 5.0
"""Most seconds between two tries to reach a Redis that does not answer."""

REMEMBERED: Final = 100
"""Ids of alerts that are remembered for each partition, to find where a stream has lost its end."""

# The subscriber runs in the user's own application, which logs by the standard library.
log: Final = logging.getLogger("ragtide.alerts")


class AlertSubscriber:
    """Yields every change of alerts: `async with AlertSubscriber() as alerts: async for alert in alerts: ...`.

    An alert fires, may be explained once while it fires (its `cause` is known then), and resolves, under one id.

    The subscriber remembers the id of the last alert of each partition. After a restart of Redis it connects again,
    with a growing pause between the tries, and continues after the last alert that it has yielded, so no alert is
    missed. If Redis lost the end of a stream, the aggregator writes the lost alerts again, under the same `alert_id`.
    The ids are kept in this process only, so each subscriber gets all alerts from its own start. An unreadable entry is
    skipped, counted in `unreadable.count`, and logged.

    Args:
        redis_url: Redis to use; by default `RAGTIDE_REDIS_URL`, or else the Redis that ragtide runs on this machine.
        from_start: begin with the first alert that the stream still holds instead of the next alert.
        settings: all settings at once, instead of the URL and the environment.

    Raises:
        ConfigurationError: a setting is wrong.
        RedisUnavailable: Redis cannot be reached when the subscriber is opened.
    """

    def __init__(
        self, redis_url: str | None = None, *, from_start: bool = False, settings: Settings | None = None
    ) -> None:
        self._settings = settings or settings_of_application(**({} if redis_url is None else {"redis_url": redis_url}))
        self._from_start = from_start
        self._handle: RedisHandle | None = None
        self._redis: Redis | None = None
        self._positions: dict[str, str] = {}
        self._seen: dict[str, deque[str]] = {}
        self.unreadable = Unreadable("alert")
        """The entries that were skipped."""

    async def __aenter__(self) -> Self:
        self._handle = await asyncio.to_thread(resolve_redis, self._settings.redis_address, self._settings.data_dir)
        self._redis = connect_async(self._handle.url)
        try:
            # Read the positions now and not at the first iteration, so that no alert in between is missed.
            for streams in self._settings.layout.all():
                last = None if self._from_start else await read_last(self._redis, streams.alerts)
                self._advance(streams.alerts, last.entry_id if last else START)
        except RedisError as error:
            url = redact(self._handle.url)
            await self.__aexit__(None, None, None)
            raise RedisUnavailable(f"{url}: {error}; check that Redis runs, then try again") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._redis is not None:
            await self._redis.aclose()
            self._redis = None
        if self._handle is not None:
            await asyncio.to_thread(self._handle.close)
            self._handle = None

    async def __aiter__(self) -> AsyncIterator[Alert]:
        if self._redis is None:
            raise RuntimeError("the subscriber is not open: use it in `async with`")
        while True:
            for stream, entries in await self._read(self._redis):
                for entry in entries:
                    self._advance(stream, entry.entry_id)
                    alert = self.unreadable.decode(Alert, stream, entry)
                    if alert is not None:
                        yield alert
            warning = self.unreadable.due_warning()
            if warning is not None:
                log.warning("%s", warning)

    async def _read(self, redis: Redis) -> list[tuple[str, list[Entry]]]:
        """Return the next alerts, maybe none; wait for a Redis that does not answer."""
        backoff = Backoff(longest_s=LONGEST_PAUSE_S)
        while True:
            try:
                if backoff.failing:
                    await self._go_back(redis)
                    log.warning("%s can be used again; alerts continue after the last alert", self._address)
                    backoff.succeeded()
                return await read_after(redis, self._positions, count=AT_ONCE, block_ms=POLL_MS)
            except (RedisError, OSError) as error:
                if not backoff.failing:
                    log.warning("%s cannot be used (%s); alerts wait for it", self._address, error)
            await asyncio.sleep(backoff.pause_s())

    def _advance(self, stream: str, entry_id: str) -> None:
        self._positions[stream] = entry_id
        self._seen.setdefault(stream, deque(maxlen=REMEMBERED)).append(entry_id)

    async def _go_back(self, redis: Redis) -> None:
        """Set the position in each stream whose end Redis lost back to the last remembered alert that is still there.

        The alerts after it are gone, so no alert is yielded twice. Alerts written after the loss may have smaller ids.
        """
        for stream, seen in self._seen.items():
            for entry_id in reversed(seen):
                if entry_id == START or await read_range(redis, stream, first=entry_id, last=entry_id, count=1):
                    self._positions[stream] = entry_id
                    break
            else:
                # The stream holds no remembered alert: it was trimmed, or Redis lost all of them.
                if order(await last_id(redis, stream)) < order(self._positions[stream]):
                    self._positions[stream] = START

    @property
    def _address(self) -> str:
        return "Redis" if self._handle is None else redact(self._handle.url)
