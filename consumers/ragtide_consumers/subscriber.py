"""Subscribing to alerts: every change of every alert, in the order of its stream."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from redis.asyncio import Redis

from ragtide_runtime.connection import connect_async
from ragtide_runtime.redis_url import RedisHandle, resolve_redis
from ragtide_runtime.settings import Settings, load_settings
from ragtide_runtime.stream_reads import read_after, read_last
from ragtide_schemas import DATA_FIELD, Alert

AT_ONCE = 100
"""Most alerts of a partition read at once."""

POLL_MS = 1000
"""Milliseconds one read waits for alerts."""


class AlertSubscriber:
    """Yields alerts as they fire and resolve: `async with AlertSubscriber() as alerts: async for alert in alerts: ...`.

    It keeps no position on the server: each subscriber sees everything from where it starts.

    Args:
        redis_url: Redis to use; by default `RAGTIDE_REDIS_URL`, or else the Redis that ragtide runs on this machine.
        from_start: begin with the first alert that the stream still holds instead of the next one.
        settings: all settings at once, instead of the URL and what the environment says.

    Raises:
        ConfigurationError: a setting is wrong.
    """

    def __init__(
        self, redis_url: str | None = None, *, from_start: bool = False, settings: Settings | None = None
    ) -> None:
        self._settings = settings or load_settings(**({} if redis_url is None else {"redis_url": redis_url}))
        self._from_start = from_start
        self._handle: RedisHandle | None = None
        self._redis: Redis | None = None

    async def __aenter__(self) -> Self:
        self._handle = await asyncio.to_thread(resolve_redis, self._settings.redis_address, self._settings.data_dir)
        self._redis = connect_async(self._handle.url)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._redis is not None:
            await self._redis.aclose()
        if self._handle is not None:
            await asyncio.to_thread(self._handle.close)

    async def __aiter__(self) -> AsyncIterator[Alert]:
        if self._redis is None:
            raise RuntimeError("the subscriber is not open: use it in `async with`")
        positions: dict[str, str] = {}
        for streams in self._settings.layout.all():
            stream = streams.alerts
            last = None if self._from_start else await read_last(self._redis, stream)
            positions[stream] = last.entry_id if last else "0-0"
        while True:
            for stream, entries in await read_after(self._redis, positions, count=AT_ONCE, block_ms=POLL_MS):
                for entry in entries:
                    positions[stream] = entry.entry_id
                    yield Alert.decode(entry.fields[DATA_FIELD])
