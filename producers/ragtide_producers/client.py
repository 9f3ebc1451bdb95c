"""The producer: puts interactions on the streams, from synchronous or asynchronous code."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Self

from redis import Redis, RedisError
from redis.asyncio import Redis as AsyncRedis

from ragtide_runtime.connection import connect, connect_async
from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis_url import RedisHandle, redact, resolve_redis
from ragtide_runtime.scripts import BlockingRun, Run, run_together, run_together_blocking
from ragtide_runtime.settings import Settings, load_settings
from ragtide_runtime.tracing import trace_publishing
from ragtide_schemas import DATA_FIELD, Feedback, RagInteraction

from .publication import PUBLISH_SCRIPT, Addressing, Publication, publication

BATCH = 200
"""Interactions sent in one round trip."""


class InteractionProducer:
    """Publishes interactions: `publish` and `publish_many` block, `apublish` and `apublish_many` are awaited.

    Use it as a context manager (`with` or `async with`), or close it. One producer serves many calls; an
    asynchronous one belongs to one event loop. Publishing is idempotent: an interaction id that was seen within the
    dedupe window adds nothing, so after an error it is always safe to publish again.

    Args:
        redis_url: Redis to use; by default `RAGTIDE_REDIS_URL`, or else the Redis that ragtide runs on this machine.
        prefix: first part of every key; by default `RAGTIDE_PREFIX`.
        partitions: number of partitions of the deployment; by default `RAGTIDE_PARTITIONS`.
        dedupe_window_s: seconds for which an id counts as seen; by default `RAGTIDE_DEDUPE_WINDOW_S`.
        settings: all settings at once, instead of the four above.

    Raises:
        ConfigurationError: a setting is wrong.
    """

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        prefix: str | None = None,
        partitions: int | None = None,
        dedupe_window_s: float | None = None,
        settings: Settings | None = None,
    ) -> None:
        given = {
            "redis_url": redis_url,
            "prefix": prefix,
            "partitions": partitions,
            "dedupe_window_s": dedupe_window_s,
        }
        self._settings = settings or load_settings(
            **{name: value for name, value in given.items() if value is not None}
        )
        self._addressing = Addressing(self._settings.prefix, self._settings.partitions, self._settings.dedupe_window_s)
        self._handle: RedisHandle | None = None
        self._client: Redis | None = None
        self._async_client: AsyncRedis | None = None
        self._opening = asyncio.Lock()

    def publish(self, interaction: RagInteraction) -> Publication:
        """Publish one interaction and return what became of it.

        Raises:
            InvalidEntryError: the interaction is too large.
            RedisUnavailable: Redis could not be reached or refused; publish again later.
        """
        return self.publish_many([interaction])[0]

    def publish_many(self, interactions: Iterable[RagInteraction]) -> list[Publication]:
        """Publish interactions in batches and return what became of each, in order.

        Raises:
            InvalidEntryError: an interaction is too large; nothing of this call was published.
            RedisUnavailable: Redis could not be reached or refused; publish all of them again later.
        """
        prepared = [
            (interaction, *self._addressing.call(interaction, trace_publishing(interaction)))
            for interaction in interactions
        ]
        client = self._blocking_client()
        script = client.register_script(PUBLISH_SCRIPT)
        published: list[Publication] = []
        try:
            for start in range(0, len(prepared), BATCH):
                batch = prepared[start : start + BATCH]
                runs = [BlockingRun(script, keys, arguments) for _, keys, arguments in batch]
                replies = run_together_blocking(client, runs)
                published += [publication(item[0], reply) for item, reply in zip(batch, replies, strict=True)]
        except RedisError as error:
            raise self._unavailable(error) from error
        return published

    async def apublish(self, interaction: RagInteraction) -> Publication:
        """Do as `publish`, without blocking the event loop."""
        return (await self.apublish_many([interaction]))[0]

    async def apublish_many(self, interactions: Iterable[RagInteraction]) -> list[Publication]:
        """Do as `publish_many`, without blocking the event loop."""
        prepared = [
            (interaction, *self._addressing.call(interaction, trace_publishing(interaction)))
            for interaction in interactions
        ]
        client = await self._connected()
        script = client.register_script(PUBLISH_SCRIPT)
        published: list[Publication] = []
        try:
            for start in range(0, len(prepared), BATCH):
                batch = prepared[start : start + BATCH]
                replies = await run_together(client, [Run(script, keys, arguments) for _, keys, arguments in batch])
                published += [publication(item[0], reply) for item, reply in zip(batch, replies, strict=True)]
        except RedisError as error:
            raise self._unavailable(error) from error
        return published

    def publish_feedback(self, feedback: Iterable[Feedback]) -> int:
        """Publish gold scores of interactions and return how many there were.

        Sending them again after an error is safe: of each interaction's metric the first gold score counts.

        Raises:
            RedisUnavailable: Redis could not be reached or refused; publish all of them again later.
        """
        client = self._blocking_client()
        sent = 0
        try:
            for batch in _batches(feedback):
                with client.pipeline(transaction=False) as pipe:
                    for one in batch:
                        pipe.xadd(self._addressing.streams(one.pipeline).feedback, {DATA_FIELD: one.encode()})
                    sent += len(pipe.execute())
        except RedisError as error:
            raise self._unavailable(error) from error
        return sent

    async def apublish_feedback(self, feedback: Iterable[Feedback]) -> int:
        """Do as `publish_feedback`, without blocking the event loop."""
        client = await self._connected()
        sent = 0
        try:
            for batch in _batches(feedback):
                async with client.pipeline(transaction=False) as pipe:
                    for one in batch:
                        pipe.xadd(self._addressing.streams(one.pipeline).feedback, {DATA_FIELD: one.encode()})
                    sent += len(await pipe.execute())
        except RedisError as error:
            raise self._unavailable(error) from error
        return sent

    def _blocking_client(self) -> Redis:
        if self._client is None:
            self._handle = self._handle or resolve_redis(self._settings.redis_address, self._settings.data_dir)
            self._client = connect(self._handle.url)
        return self._client

    async def _connected(self) -> AsyncRedis:
        async with self._opening:
            if self._async_client is None:
                if self._handle is None:
                    self._handle = await asyncio.to_thread(
                        resolve_redis, self._settings.redis_address, self._settings.data_dir
                    )
                self._async_client = connect_async(self._handle.url)
            return self._async_client

    def _unavailable(self, error: RedisError) -> RedisUnavailable:
        url = redact(self._handle.url) if self._handle else "Redis"
        return RedisUnavailable(f"publishing to {url} failed ({error}): check that Redis runs, then publish again")

    def close(self) -> None:
        """Close the blocking connection, and stop a Redis that only this producer used."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    async def aclose(self) -> None:
        """Close every connection, and stop a Redis that only this producer used."""
        if self._async_client is not None:
            await self._async_client.aclose()
            self._async_client = None
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _batches(feedback: Iterable[Feedback]) -> Iterator[list[Feedback]]:
    iterator = iter(feedback)
    while batch := list(islice(iterator, BATCH)):
        yield batch
