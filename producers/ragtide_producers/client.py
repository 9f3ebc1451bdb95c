"""The producer that applications use: publishes interactions and feedback, from synchronous or asynchronous code."""

import asyncio
import atexit
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Self

from redis import Redis, RedisError
from redis.asyncio import Redis as AsyncRedis

from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.processes.forks import NOT_FORKING, begin_anew_in_children
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.failures import explained
from ragtide_runtime.redis.layout import check_layout, check_layout_blocking
from ragtide_runtime.redis.scripts import run_script, run_scripts_blocking
from ragtide_runtime.redis.url import RedisHandle, redact, resolve_redis
from ragtide_runtime.settings.application import ApplicationSettings
from ragtide_runtime.settings.producers import Policy, SampleBy
from ragtide_runtime.telemetry.tracing import trace_publishing
from ragtide_schemas import Feedback, RagInteraction

from .publishing.background import Background
from .publishing.batch_publisher import BATCH, BatchPublisher, feedback_batches
from .publishing.outbox import ProducerCounts
from .publishing.routes import FeedbackRoute, InteractionRoute, Publication, PublishCommand
from .publishing.sampling import Sampling


class InteractionProducer:
    """Publishes interactions and feedback.

    `submit...` methods never wait, `publish...` methods block, and `apublish...` methods are awaited.

    Use the producer as a context manager (`with` or `async with`), or close it. Use one producer for many calls; its
    asynchronous methods belong to one event loop. An interaction id that was published within the dedupe window is not
    published again, so it is always safe to repeat a call after an error.

    Args:
        redis_url: Redis to use; by default `RAGTIDE_REDIS_URL`, or the Redis that ragtide runs on this machine.
        prefix: first part of every key; by default `RAGTIDE_PREFIX`.
        partitions: number of partitions of the deployment; by default `RAGTIDE_PARTITIONS`.
        splits: sharding factors of split pipelines; by default `RAGTIDE_SPLITS`.
        dedupe_window_s: seconds for which a published id stays known; by default `RAGTIDE_DEDUPE_WINDOW_S`.
        policy: for a full stream `block`, `drop_new` or `sample`; by default `RAGTIDE_PRODUCER_POLICY`.
        sample: share of the interactions to send, in (0, 1]; by default `RAGTIDE_PRODUCER_SAMPLE`. A hash of pipeline
            and id decides, so every process decides the same. The probability is recorded, and estimates use its
            inverse as weight.
        sample_by: `interaction`, or `session` to keep whole sessions; by default `RAGTIDE_PRODUCER_SAMPLE_BY`.
        strict: whether `submit` and `submit_feedback` raise errors that they otherwise only count.
        settings: all settings at once, instead of the arguments above except `sample`, `sample_by` and `strict`.

    Raises:
        ConfigurationError: a setting is wrong.
    """

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        prefix: str | None = None,
        partitions: int | None = None,
        splits: Mapping[str, int] | None = None,
        dedupe_window_s: float | None = None,
        policy: Policy | None = None,
        sample: float | None = None,
        sample_by: SampleBy | None = None,
        strict: bool = False,
        settings: ApplicationSettings | None = None,
    ) -> None:
        given: dict[str, object | None] = {
            "redis_url": redis_url,
            "prefix": prefix,
            "partitions": partitions,
            "splits": splits,
            "dedupe_window_s": dedupe_window_s,
            "producer": policy and {"policy": policy},
        }
        with NOT_FORKING:
            self._settings = settings or ApplicationSettings.of_application(
                **{name: value for name, value in given.items() if value is not None}
            )
        self._strict = strict
        self._sampling = Sampling.of(self._settings.producer, sample, sample_by)
        self._route = InteractionRoute.of(self._settings, self._sampling)
        self._background = Background(self._settings, self._route, strict=strict, at_exit=self._finish)
        self._feedback = Background(
            self._settings, FeedbackRoute(self._settings.layout), strict=strict, at_exit=self._finish
        )
        self._reset()
        begin_anew_in_children(self)

    def _reset(self) -> None:
        self._handle: RedisHandle | None = None
        self._client: Redis | None = None
        self._async_client: AsyncRedis | None = None
        self._opening = asyncio.Lock()

    def in_child(self) -> None:
        """Begin anew in a forked process: it opens connections of its own, and has none of its parent's items."""
        # Kept, so that nothing is closed: the parent uses the same sockets.
        self._of_parent = (self._handle, self._client, self._async_client)
        self._reset()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a process that multiprocessing spawns makes a producer with the same settings."""
        sampling = self._sampling
        return _with_settings, (self._settings, sampling.probability, sampling.by, self._strict)

    def submit(self, interaction: RagInteraction | Mapping[str, Any] | None = None, /, **fields: Any) -> bool:
        """Queue an interaction to be published in the background, and return at once whether nothing went wrong.

        The result is False for an interaction that is dropped: the queue is full, or the interaction is invalid. It is
        True for a queued interaction, and for one that `sample` leaves out (`counts.sampled_out`).

        The method never waits and never raises, so it is safe in any thread and event loop. While Redis cannot be
        reached, up to `producer.queue` interactions wait in the queue; others are dropped and counted. An invalid
        interaction is dropped, counted as `invalid`, and logged if it is the first of its kind.

        Args:
            interaction: a `RagInteraction`, or a mapping of its fields. Do not change its metadata afterwards.
            fields: fields of the interaction by keyword, or `messages` of an agent's run in place of its texts.

        Raises:
            InvalidEntryError: the producer is strict, and the interaction is invalid or too large.
            QueueFullError: the producer is strict, and the queue is full.
        """
        return self._background.submit(interaction, fields)

    def keeps(self, pipeline: str, interaction_id: str, session_id: str | None = None) -> bool:
        """Return whether `sample` keeps an interaction; the answer is the same in every process with these settings.

        Call it before work that only a published interaction needs, such as copying documents or sending feedback.

        Args:
            pipeline: of the interaction.
            interaction_id: of the interaction.
            session_id: of the interaction; with `sample_by="session"` it decides.
        """
        return self._sampling.keeps(pipeline, interaction_id, session_id)

    def submit_feedback(self, feedback: Feedback | Mapping[str, Any] | None = None, /, **fields: Any) -> bool:
        """Queue gold scores of an interaction to be published in the background, and return whether they were queued.

        The method behaves as `submit`. Feedback has a queue of its own of the same size. It is safe to submit feedback
        again, because only the first gold score of an interaction's metric counts.

        Args:
            feedback: a `Feedback`, or a mapping of its fields.
            fields: fields of the feedback by keyword.

        Raises:
            InvalidEntryError: the producer is strict, and the feedback is invalid or too large.
            QueueFullError: the producer is strict, and the queue is full.
        """
        return self._feedback.submit(feedback, fields)

    @property
    def counts(self) -> ProducerCounts:
        """Counts of submitted interactions and their outcomes, at this moment."""
        return self._background.counts()

    @property
    def feedback_counts(self) -> ProducerCounts:
        """Counts of submitted feedback and its outcomes, at this moment."""
        return self._feedback.counts()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all submitted items are in Redis or dropped, and return whether this happened in time.

        Args:
            timeout_s: seconds to wait; by default `producer.flush_s`.
        """
        deadline = time.monotonic() + (self._settings.producer.flush_s if timeout_s is None else timeout_s)
        queues = (self._background, self._feedback)
        for queue in queues:
            queue.nudge()
        flushed = [queue.flush(max(deadline - time.monotonic(), 0.0)) for queue in queues]
        return all(flushed)

    async def aflush(self, timeout_s: float | None = None) -> bool:
        """Do as `flush`, without blocking the event loop.

        Args:
            timeout_s: most seconds to wait; without it as long as it takes.
        """
        return await asyncio.to_thread(self.flush, timeout_s)

    def publish(self, interaction: RagInteraction) -> Publication:
        """Publish one interaction and return its outcome; it may be left out by `sample`.

        Args:
            interaction: what to publish.

        Raises:
            InvalidEntryError: the interaction is too large.
            StreamFullError: the stream had no room for `producer.block_s`, and the policy is `block`.
            RedisUnavailable: Redis could not be reached or refused; publish again later.
        """
        return self.publish_many([interaction])[0]

    def publish_many(self, interactions: Iterable[RagInteraction]) -> list[Publication]:
        """Publish interactions in batches and return the outcome of each, in order; `sample` leaves out some.

        Args:
            interactions: what to publish, of any pipelines.

        Raises:
            InvalidEntryError: an interaction is too large, or its probability is too small; nothing of this call was
                published.
            StreamFullError: there was no room for `producer.block_s`, and the policy is `block`. Earlier interactions
                stay published; it is safe to publish all again.
            RedisUnavailable: Redis could not be reached or refused; publish all again later.
        """
        publisher = self._batch_publisher(interactions)
        try:
            client = self._blocking_client()
            while batch := publisher.batch():
                (outcomes,) = run_scripts_blocking(client, [self._route.call(batch)])
                if pause_s := publisher.complete(outcomes):
                    time.sleep(pause_s)
        except RedisError as error:
            raise self._unavailable(error) from error
        return publisher.publications()

    async def apublish(self, interaction: RagInteraction) -> Publication:
        """Do as `publish`, without blocking the event loop.

        Args:
            interaction: what to publish.
        """
        return (await self.apublish_many([interaction]))[0]

    async def apublish_many(self, interactions: Iterable[RagInteraction]) -> list[Publication]:
        """Do as `publish_many`, without blocking the event loop.

        Args:
            interactions: what to publish, of any pipelines.
        """
        publisher = self._batch_publisher(interactions)
        try:
            client = await self._connected()
            while batch := publisher.batch():
                outcomes = await run_script(client, self._route.call(batch))
                if pause_s := publisher.complete(outcomes):
                    await asyncio.sleep(pause_s)
        except RedisError as error:
            raise self._unavailable(error) from error
        return publisher.publications()

    def publish_feedback(self, feedback: Iterable[Feedback]) -> int:
        """Publish gold scores of interactions and return the number of feedback items.

        It is safe to publish feedback again, because only the first gold score of an interaction's metric counts.

        Args:
            feedback: gold scores of interactions, of any pipelines.

        Raises:
            RedisUnavailable: Redis could not be reached or refused; publish all again later.
        """
        sent = 0
        try:
            client = self._blocking_client()
            for stream, entries in feedback_batches(self._settings.layout, feedback):
                with client.pipeline(transaction=False) as pipe:
                    for entry in entries:
                        pipe.xadd(stream, entry)
                    sent += len(pipe.execute())
        except RedisError as error:
            raise self._unavailable(error) from error
        return sent

    async def apublish_feedback(self, feedback: Iterable[Feedback]) -> int:
        """Do as `publish_feedback`, without blocking the event loop.

        Args:
            feedback: gold scores of interactions, of any pipelines.
        """
        sent = 0
        try:
            client = await self._connected()
            for stream, entries in feedback_batches(self._settings.layout, feedback):
                async with client.pipeline(transaction=False) as pipe:
                    for entry in entries:
                        pipe.xadd(stream, entry)
                    sent += len(await pipe.execute())
        except RedisError as error:
            raise self._unavailable(error) from error
        return sent

    def _batch_publisher(self, interactions: Iterable[RagInteraction]) -> BatchPublisher:
        return BatchPublisher(self._settings.layout, self._commands(interactions), self._settings.producer.block_s)

    def _commands(self, interactions: Iterable[RagInteraction]) -> Iterator[PublishCommand | Publication]:
        traceparent_of, iterator = trace_publishing(), iter(interactions)
        commands: list[PublishCommand | Publication]
        while some := list(islice(iterator, BATCH)):
            with NOT_FORKING:
                if traceparent_of is None and self._sampling.keeps_all:
                    commands = [*map(self._route.command, some)]
                else:
                    commands = [self._command(interaction, traceparent_of) for interaction in some]
            yield from commands

    def _command(
        self, interaction: RagInteraction, traceparent_of: Callable[[RagInteraction], str] | None
    ) -> PublishCommand | Publication:
        sampled = self._sampling.sampled(interaction)
        if sampled is None:
            return Publication(interaction.interaction_id, None, added=False, sampled_out=True)
        return self._route.command(sampled, traceparent_of(sampled) if traceparent_of else "")

    def _blocking_client(self) -> Redis:
        if self._client is None:
            self._handle = self._handle or resolve_redis(
                self._settings.redis_address, self._settings.data_dir, convert=True
            )
            client = connect(self._handle.url)
            try:
                check_layout_blocking(client, self._settings.layout)
            except (RedisError, ConfigurationError):
                client.close()
                raise
            self._client = client
        return self._client

    async def _connected(self) -> AsyncRedis:
        async with self._opening:
            if self._async_client is None:
                if self._handle is None:
                    self._handle = await asyncio.to_thread(
                        resolve_redis, self._settings.redis_address, self._settings.data_dir, convert=True
                    )
                client = connect_async(self._handle.url)
                try:
                    await check_layout(client, self._settings.layout)
                except (RedisError, ConfigurationError):
                    await client.aclose()
                    raise
                self._async_client = client
            return self._async_client

    def _unavailable(self, error: RedisError) -> RedisUnavailable:
        url = redact(self._handle.url) if self._handle else "Redis"
        return RedisUnavailable(f"publishing to {url} failed ({explained(error)}): publish again when Redis works")

    def close(self) -> None:
        """Flush submitted items, close the blocking connection, and stop a Redis that only this producer used.

        Items that are not sent within `producer.flush_s` are dropped and counted. The end of the process does the same.
        """
        self._finish()
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _finish(self) -> None:
        """Send submitted items for at most `producer.flush_s`, and end the threads."""
        deadline = time.monotonic() + self._settings.producer.flush_s
        self._feedback.nudge()
        for queue in (self._background, self._feedback):
            queue.close(max(deadline - time.monotonic(), 0.0))
        atexit.unregister(self._finish)

    async def aclose(self) -> None:
        """Do as `close`, for all connections and without blocking the event loop."""
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


def _with_settings(
    settings: ApplicationSettings, sample: float, sample_by: SampleBy, strict: bool
) -> InteractionProducer:
    return InteractionProducer(settings=settings, sample=sample, sample_by=sample_by, strict=strict)
