"""A replay of interactions: published into a run bit by bit, labeled and aggregated there by the ordinary roles."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import Final, cast

from redis.asyncio import Redis

from ragtide_roles.serving import serve
from ragtide_runtime.cancellation import end
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.log import last_id
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.process import ProcessTelemetry

from .counting import Counted, Scope
from .interactions import Item, Items
from .progress import Tally, Tallying
from .publishing import Fed, Feeder, Stamp, read_fed
from .speed import Pace, Speed

LEAD: Final = 1000
"""Most interactions that are published and not labeled yet."""

BATCH: Final = 100
"""Most of them published at once."""

POLL_S: Final = 0.05
"""Seconds between two looks at what was labeled."""

PROBES: Final = 8
"""Interactions that are out at first when cost is limited: what one costs is not known yet."""


@dataclass(frozen=True, slots=True)
class RelabelOptions:
    """How interactions are labeled anew."""

    run: str
    speed: Speed
    max_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class RelabelProgress:
    """How far it is."""

    fed: Fed
    tally: Tally
    total: int
    complete: bool = False
    over_cost: bool = False
    """Whether it stopped because more would cost more than it may."""

    @property
    def projected_usd(self) -> float | None:
        """What all of it will cost if the rest costs what was labeled did on average."""
        labeled = self.tally.labeled
        return self.tally.cost_usd / labeled * self.total if labeled else None


Seen = Callable[[RelabelProgress], None]


class Relabeling:
    """Labels interactions anew in one process; workers of other processes may join.

    Args:
        settings: of the run.
        url: of Redis.
        items: what is replayed.
        counted: how much that is, by pipeline.
        options: how.
    """

    def __init__(self, settings: Settings, url: str, items: Items, counted: Counted, options: RelabelOptions) -> None:
        self._settings = settings
        self._url = url
        self._items = items
        self._counted = counted
        self._options = options
        self._streams = Streams(settings.prefix, 0)
        self._over_cost = False

    async def run(self, stop: asyncio.Event, seen: Seen) -> RelabelProgress:
        """Replay until everything was labeled and aggregated, or until told to stop, or until it would cost too much.

        Raises:
            ReplayError: another process replays the run.
        """
        roles_stop = asyncio.Event()
        roles = asyncio.create_task(
            serve(self._settings, self._url, roles_stop, worker=True, aggregator=True, process=ProcessTelemetry())
        )
        async with connect_async(self._url) as redis:
            replay = asyncio.create_task(self._replay(redis, stop, seen))
            try:
                await asyncio.wait([roles, replay], return_when=asyncio.FIRST_COMPLETED)
            finally:
                roles_stop.set()
                if not replay.done():
                    await end(replay)
            await roles
            return replay.result()

    async def _replay(self, redis: Redis, stop: asyncio.Event, seen: Seen) -> RelabelProgress:
        tallying = Tallying(redis, self._streams)
        await tallying.begin()
        fed = await read_fed(redis, self._streams)
        stamp = Stamp(self._options.run, lambda pipeline: self._counted.scopes[Scope((pipeline,))])
        feeder = Feeder(
            redis, self._streams, stamp, dedupe_window_s=self._settings.dedupe_window_s, position=fed.position
        )
        items = self._items.after(fed.position)
        pace = Pace(self._options.speed)
        waiting: list[Item] = []
        exhausted = False
        while not stop.is_set():
            tally = await tallying.read()
            room = self._room(fed.published - tally.done, tally)
            if not waiting and not exhausted:
                waiting = await asyncio.to_thread(lambda: list(islice(items, BATCH)))
                exhausted = not waiting
            due = _due(waiting[: min(room, BATCH)], pace)
            if due:
                await feeder.publish(due)
                waiting = waiting[len(due) :]
                fed = await read_fed(redis, self._streams)
            seen(RelabelProgress(fed, tally, self._counted.total))
            labeled = tally.done >= fed.published
            if labeled and (exhausted or self._over_cost) and await self._aggregated(redis):
                return RelabelProgress(fed, tally, self._counted.total, exhausted, self._over_cost)
            if not due:
                await asyncio.sleep(POLL_S)
        return RelabelProgress(fed, await tallying.read(), self._counted.total)

    def _room(self, out: int, tally: Tally) -> int:
        """Return how many more may be published, with so many that are not labeled yet."""
        limit = self._options.max_cost_usd
        if limit is None:
            return max(LEAD - out, 0)
        if not tally.labeled:
            self._over_cost = limit <= 0
            return 0 if self._over_cost else max(PROBES - out, 0)
        each = tally.cost_usd / tally.labeled
        self._over_cost = each > 0 and tally.cost_usd + (out + 1) * each > limit
        if self._over_cost:
            return 0
        affordable = LEAD if each == 0 else int((limit - tally.cost_usd) / each)
        # No more at once than were labeled before: the mean of a few may be far off.
        return max(min(LEAD, affordable, max(tally.labeled, PROBES)) - out, 0)

    async def _aggregated(self, redis: Redis) -> bool:
        streams = self._streams
        fields = [CheckpointField.POSITION, CheckpointField.FEEDBACK_POSITION]
        stored = cast("list[bytes | None]", await redis.hmget(streams.checkpoint, fields))
        ends = [await last_id(redis, streams.metrics), await last_id(redis, streams.feedback)]
        return all(end_ == "0-0" or (at or b"").decode() == end_ for at, end_ in zip(stored, ends, strict=True))


def _due(items: list[Item], pace: Pace) -> list[Item]:
    due = []
    for item in items:
        if pace.wait_s(item.interaction.occurred_at, monotonic()) > 0:
            break
        due.append(item)
    return due
