"""What an entry waits for before it is labeled: room for its metric event, its turn, and its labeler.

Its turn: an entry that was delivered too often is labeled alone, in quarantine, before it becomes a dead letter. A
worker that dies fails a delivery of every entry that it held. By the number of deliveries alone, all these entries
would become dead letters, not only the entry that crashed the worker. In quarantine the worker labels nothing else: if
it dies again, this entry is the likely cause. Each attempt is counted in Redis before it begins.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final, NamedTuple

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.telemetry.health import Heartbeat
from ragtide_runtime.telemetry.outages import Attempt
from ragtide_schemas import RagInteraction

from ..labelers.evaluators import ReplaceableLabeler
from ..labelers.event import labeler_id
from ..labelers.outage import LabelerOutage
from ..labelers.protocol import (
    LONGEST_WAIT_S,
    Labeler,
    LabelerId,
    LabelerUnavailable,
    Labeling,
    SampleUnavailable,
    scores_of,
)

log = structlog.get_logger("ragtide.worker")


class Backpressure:
    """The room for more metric events in the stream of a partition.

    Args:
        streams: keys of the partition.
        cap: metric events in the stream at which labeling pauses.
        heartbeat: of the loop that counts them.
        attempt: logs an outage of Redis once.
    """

    def __init__(self, redis: Redis, streams: Streams, *, cap: int, heartbeat: Heartbeat, attempt: Attempt) -> None:
        self._redis = redis
        self._stream = streams.metrics
        self._partition = streams.partition
        self._cap = cap
        self._heartbeat = heartbeat
        self._attempt = attempt
        self._room = asyncio.Event()
        self._room.set()

    @property
    def paused(self) -> bool:
        """Whether labeling waits for room."""
        return not self._room.is_set()

    async def wait_for_room(self) -> None:
        """Return when there is room."""
        await self._room.wait()

    async def run(self, pause_s: float, turned: Callable[[], None]) -> None:
        """Count the metric events in the stream again and again, and call `turned` before each count."""
        self._heartbeat.beat("starting")
        while True:
            await asyncio.sleep(pause_s)
            turned()
            try:
                self._update(await self._redis.xlen(self._stream))
                self._attempt.succeeded()
                self._heartbeat.beat("labeling pauses: too many metric events wait" if self.paused else "there is room")
            except RedisError as error:
                self._heartbeat.failed(f"reading the length of the metrics stream fails: {error}")
                self._attempt.failed(error)

    def _update(self, metric_events: int) -> None:
        if metric_events < self._cap:
            if self.paused:
                log.info("labeling continues: there is room for metric events again", partition=self._partition)
            self._room.set()
        elif not self.paused:
            log.warning(
                "labeling pauses: too many metric events wait; check that an aggregator runs",
                partition=self._partition,
                metric_events=metric_events,
            )
            self._room.clear()


EXCLUSIVE_ATTEMPTS: Final = 3
"""Attempts in quarantine after which an entry becomes a dead letter. There are several, because a worker may also die
of another cause."""

REMEMBERED_MS: Final = 86_400_000
"""Milliseconds for which attempts are remembered."""


class RetryBudget:
    """The attempts in quarantine of the entries of a partition, counted in Redis."""

    def __init__(self, redis: Redis, streams: Streams) -> None:
        self._redis = redis
        self._streams = streams

    async def spend(self, entry_id: str) -> bool:
        """Count an attempt at an entry, and return whether the budget allows it.

        Raises:
            redis.RedisError: the attempt may or may not have been counted.
        """
        key = self._streams.quarantine(entry_id)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.pexpire(key, REMEMBERED_MS)
            attempts, _ = await pipe.execute()
        return int(attempts) <= EXCLUSIVE_ATTEMPTS

    async def refund(self, entry_id: str) -> None:
        """Uncount an attempt, because the labeler was unavailable.

        Raises:
            redis.RedisError: the attempt may or may not have been uncounted.
        """
        await self._redis.decr(self._streams.quarantine(entry_id))


class ExclusiveExecution:
    """Lets a worker label many entries at once, or a single suspect."""

    def __init__(self) -> None:
        self._shared = 0
        self._none_shared = asyncio.Event()
        self._exclusive = False
        self._not_exclusive = asyncio.Event()
        self._not_exclusive.set()

    @property
    def is_exclusive(self) -> bool:
        """Whether a suspect is being labeled, or waits for the others."""
        return self._exclusive

    async def wait_while_exclusive(self) -> None:
        """Wait until no suspect is being labeled; call it before `begin_shared`."""
        while self._exclusive:
            await self._not_exclusive.wait()

    def begin_shared(self) -> None:
        """Keep suspects waiting until `end_shared`."""
        self._shared += 1

    def end_shared(self) -> None:
        """Let a suspect be labeled, if this was the last."""
        self._shared -= 1
        if not self._shared:
            self._none_shared.set()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Wait until nothing else is being labeled; keep everything else waiting for the body of the `async with`."""
        await self.wait_while_exclusive()
        self._exclusive = True
        self._not_exclusive.clear()
        try:
            while self._shared:
                self._none_shared.clear()
                await self._none_shared.wait()
            yield
        finally:
            self._exclusive = False
            self._not_exclusive.set()


class TimedLabeling(NamedTuple):
    """A labeling, the seconds that its labeler took for it, without waiting, and the id of that labeler."""

    labeling: Labeling
    latency_s: float
    by: LabelerId


class Patience:
    """Calls the labeler of all workers of a process, and waits while it is unavailable."""

    def __init__(self, labeler: Labeler) -> None:
        self.labeler = labeler
        self._replaceable = labeler if isinstance(labeler, ReplaceableLabeler) else None
        self.outage = LabelerOutage(labeler.name, "interactions wait and none is lost")
        self._random = random.Random()  # noqa: S311  # jitter is no secret

    async def label(
        self, interaction: RagInteraction, *, before_waiting: Callable[[], Awaitable[None]] | None = None
    ) -> TimedLabeling:
        """Return the labeler's labels; wait for them as long as the labeler is unavailable.

        Args:
            before_waiting: awaited once, before the first wait.

        Raises:
            SampleUnavailable: the interaction is of a sample whose labeler is unavailable: it must not hold up others.
        """
        waited = False
        while True:
            started, asked_at = perf_counter(), self.outage.now()
            try:
                labeling, by = await self._scores(interaction)
            except SampleUnavailable:
                raise  # the labeler of the sample has an outage of its own
            except LabelerUnavailable as error:
                self.outage.unavailable(error)
                if not waited and before_waiting is not None:
                    await before_waiting()
                waited = True
                await asyncio.sleep(self.wait_s(error))
            else:
                self.outage.available(asked_at, labeling.counters)
                return TimedLabeling(labeling, perf_counter() - started, by)

    async def _scores(self, interaction: RagInteraction) -> tuple[Labeling, LabelerId]:
        if self._replaceable is not None:
            return await self._replaceable.label_in_force(interaction)
        return await scores_of(self.labeler, interaction), labeler_id(self.labeler)

    def wait_s(self, error: LabelerUnavailable) -> float:
        """Return the seconds until the next call of a labeler that is unavailable."""
        # Waits differ a little, so that waiting interactions are not sent all at once.
        return max(min(error.resume_in_s, LONGEST_WAIT_S) * self._random.uniform(1.0, 1.25), 0.05)
