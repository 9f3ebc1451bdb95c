"""The cost of each stage in processor time, which other work on the machine hardly changes.

Every stage runs in this process alone, so the processor time of the process is that of the role.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Self

import psutil

from ragtide import InteractionProducer, MetricEvent, RagInteraction
from ragtide.testing import FakeLabeler
from ragtide_consumers import Labeler
from ragtide_consumers.worker.app import run_workers
from ragtide_offline.capacity.judging import example_interactions
from ragtide_roles.serving import aggregate
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import SpecimenSettings

POLL_S = 0.05
"""Seconds between two looks at whether a stage is done."""
LONGEST_S = 600.0
SETTLE_S = 0.5
"""Seconds after which a role that owns its partitions has finished its start."""
STARTS = 3
"""Starts of a worker, of which the cheapest counts."""
WAITING = "waiting"
"""Prefix of streams whose entries are not yet in a stream of the deployment."""
MOVE = """
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
  redis.call('XADD', KEYS[2], '*', unpack(entry[2]))
end
redis.call('DEL', KEYS[1])
"""
"""Moves the entries of a stream to another stream."""
NO_SPECIMENS = SpecimenSettings(enabled=False)


@dataclass(frozen=True)
class StageCost:
    """What some work cost."""

    us: float
    """Processor time of the role, in microseconds."""
    redis_us: float
    """Processor time of Redis, in microseconds."""
    received: float
    """Bytes that Redis received."""
    sent: float
    """Bytes that Redis sent."""

    def __sub__(self, other: Self) -> "StageCost":
        return StageCost(
            self.us - other.us,
            self.redis_us - other.redis_us,
            self.received - other.received,
            self.sent - other.sent,
        )

    def of_each(self, count: float) -> "StageCost":
        """Return the cost of each of so many items."""
        return StageCost(self.us / count, self.redis_us / count, self.received / count, self.sent / count)


NOTHING: Final = StageCost(0.0, 0.0, 0.0, 0.0)


def own_s() -> float:
    """Return the seconds of processor time that this process has used."""
    return time.process_time()


def processor_s(process: psutil.Process) -> float:
    """Return the seconds of processor time that a process and its children have used."""
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return float(sum(used.user + used.system for used in times))


class Bench:
    """A deployment on which stages are measured.

    Args:
        servers: a client of the Redis, or of each master of a cluster.
        settings: of every role.
        used_s: returns the seconds of processor time that the role has used.
        redis: a client of the cluster; None for a single Redis.
    """

    def __init__(
        self, servers: Sequence[Any], settings: Settings, used_s: Callable[[], float] = own_s, redis: Any = None
    ) -> None:
        self.servers = servers
        self.settings = settings
        self.start_cost = NOTHING
        """The cost of the start and the end of a worker, once it was measured."""
        self._used_s = used_s
        self.redis = servers[0] if redis is None else redis
        """Client of the deployment."""

    def with_settings(self, **changes: object) -> "Bench":
        """Return the same bench with other settings."""
        changed = Bench(self.servers, self.settings.model_copy(update=changes), self._used_s, self.redis)
        changed.start_cost = self.start_cost
        return changed

    def measure_start(self) -> None:
        """Measure the start and the end of a worker."""
        fast = self.with_settings(specimens=NO_SPECIMENS)
        fast.start_cost = NOTHING
        costs = []
        for _ in range(STARTS):
            fast.empty()
            fast.publish(example_interactions(1, documents=1, kib=0.1))
            costs.append(fast.label(FakeLabeler({}), 1))
        self.start_cost = min(costs, key=lambda cost: cost.us)

    def empty(self) -> None:
        """Delete every key."""
        for server in self.servers:
            server.flushall()

    def so_far(self) -> StageCost:
        """Return all costs since the processes started."""
        infos = [{**server.info("cpu"), **server.info("stats")} for server in self.servers]
        return StageCost(
            1e6 * self._used_s(),
            1e6 * sum(info["used_cpu_user"] + info["used_cpu_sys"] for info in infos),
            sum(info["total_net_input_bytes"] for info in infos),
            sum(info["total_net_output_bytes"] for info in infos),
        )

    def used_bytes(self) -> int:
        """Return the memory that Redis uses."""
        return sum(int(server.info("memory")["used_memory"]) for server in self.servers)

    def measure(self, work: Callable[[], Coroutine[Any, Any, None]], count: float) -> StageCost:
        """Run a stage, and return its cost for each of so many items."""
        before = self.so_far()
        asyncio.run(work())
        return (self.so_far() - before).of_each(count)

    def publish(self, rows: Sequence[RagInteraction]) -> StageCost:
        """Publish interactions; return the cost of each."""

        async def work() -> None:
            async with InteractionProducer(settings=self.settings) as producer:
                await producer.apublish_many(rows)

        return self.measure(work, len(rows))

    def label(self, labeler: Labeler, count: int) -> StageCost:
        """Label so many interactions that wait; return the cost of each, without that of the start of the worker."""
        return self.label_with(lambda: nullcontext(labeler), count)

    def label_with(self, opened: Callable[[], AbstractAsyncContextManager[Labeler]], count: int) -> StageCost:
        """Label so many interactions that wait, by a labeler that is opened first; return the cost of each."""
        found: list[StageCost] = []

        async def work() -> None:
            async with opened() as labeler:
                before = self.so_far()
                await self._while(self._worker(labeler), lambda: self.labeled() >= count)
                found.append(self.so_far() - before)

        asyncio.run(work())
        return (found[0] - self.start_cost).of_each(count)

    def aggregate(self, added: Sequence[MetricEvent]) -> StageCost:
        """Run an aggregator, then add metric events; return the cost of each event, without that of the start.

        Redis itself moves the events into the stream, so that adding them costs this process nothing.
        """
        waiting = [Streams(WAITING, streams.partition) for streams in self.settings.layout.all()]
        with self.redis.pipeline(transaction=False) as pipe:
            for event in added:
                streams = self.settings.layout.of(event.pipeline, event.interaction_id)
                pipe.xadd(waiting[streams.partition].metrics, {DATA_FIELD: event.encode()})
            pipe.execute()
        found: list[StageCost] = []

        async def work() -> None:
            stop = asyncio.Event()
            running = asyncio.create_task(aggregate(self.settings, self._url, stop))
            await self._until(lambda: all(self.redis.exists(of.lease) for of in self.settings.layout.all()), running)
            await asyncio.sleep(SETTLE_S)
            for source, streams in zip(waiting, self.settings.layout.all(), strict=True):
                self.redis.eval(MOVE, 2, source.metrics, streams.metrics)
            before = self.so_far()
            await self._until(self.is_aggregated, running)
            found.append((self.so_far() - before).of_each(len(added)))
            stop.set()
            await running

        asyncio.run(work())
        return found[0]

    def idle(self, seconds: float, role: str) -> StageCost:
        """Run a role that has nothing to do; return its cost for each second, without that of its start."""
        found: list[StageCost] = []

        async def work() -> None:
            stop = asyncio.Event()
            worker = self._worker(FakeLabeler({}))
            running = asyncio.create_task(
                aggregate(self.settings, self._url, stop) if role == "aggregator" else worker(stop)
            )
            await asyncio.sleep(2.0)
            before = self.so_far()
            await asyncio.sleep(seconds)
            found.append((self.so_far() - before).of_each(seconds))
            stop.set()
            await running

        asyncio.run(work())
        return found[0]

    def labeled(self) -> int:
        """Return the number of metric events."""
        return sum(int(self.redis.xlen(streams.metrics)) for streams in self.settings.layout.all())

    def is_aggregated(self) -> bool:
        """Return whether every partition's checkpoint has its newest metric event."""
        for streams in self.settings.layout.all():
            newest = self.redis.xrevrange(streams.metrics, count=1)
            if newest and self.redis.hget(streams.checkpoint, CheckpointField.POSITION) != newest[0][0]:
                return False
        return True

    def checkpoint_bytes(self) -> dict[str, int]:
        """Return the bytes of names and values of the checkpoints, by the part before the first colon."""
        found: dict[str, int] = {}
        for streams in self.settings.layout.all():
            fields: Mapping[bytes, bytes] = self.redis.hgetall(streams.checkpoint)
            for name, value in fields.items():
                part = name.decode().partition(":")[0]
                found[part] = found.get(part, 0) + len(name) + len(value)
        return found

    def _worker(self, labeler: Labeler) -> Callable[[asyncio.Event], Coroutine[Any, Any, None]]:
        return lambda stop: run_workers(self.settings, self._url, labeler, stop)

    @property
    def _url(self) -> str:
        assert self.settings.redis_url is not None  # noqa: S101 - given by the benchmark
        return self.settings.redis_url

    async def _while(
        self, begin: Callable[[asyncio.Event], Coroutine[Any, Any, None]], is_done: Callable[[], bool]
    ) -> None:
        """Run a role until the work is done."""
        stop = asyncio.Event()
        running = asyncio.create_task(begin(stop))
        await self._until(is_done, running)
        stop.set()
        await running

    @staticmethod
    async def _until(is_done: Callable[[], bool], running: asyncio.Task[None]) -> None:
        """Wait until the work of a role is done."""
        async with asyncio.timeout(LONGEST_S):
            while not is_done():
                if running.done():
                    await running
                    raise RuntimeError("the role ended before its work was done")
                await asyncio.sleep(POLL_S)
