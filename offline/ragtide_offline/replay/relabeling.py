"""Replays recorded interactions: publishes them into a workspace, runs the roles there, and counts what they label."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, takewhile
from time import monotonic
from typing import Final, cast

from pydantic import BaseModel, Field
from redis.asyncio import Redis

from ragtide_roles.serving import serve
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import DATA_FIELD, REPLAY_GROUP, CheckpointField, ReplayField, Streams
from ragtide_runtime.redis.log import last_id, move_pin, pin, read_after
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import DeadLetter, MetricEvent

from .publishing import (
    PublishProgress,
    RecordedInteractions,
    ReplayedInteraction,
    ReplayPublisher,
    read_published,
)
from .selection import EntryCounts, Scope
from .speed import ReplayPace

AT_ONCE = 1000

LEAD: Final = 1000
"""Most published interactions that are not yet labeled."""

BATCH: Final = 100
"""Most interactions of one publish call."""

POLL_S: Final = 0.05
"""Seconds between two counts of the labeled interactions."""

PROBES: Final = 8
"""Interactions published first under a cost limit, because the cost of one interaction is not yet known."""


class LabelingProgress(BaseModel):
    """Counts so far, with the positions up to which the streams are counted."""

    labeled: int = 0
    """Labeled interactions and sessions."""
    sessions: int = 0
    """The sessions among them."""
    dead: int = 0
    """Interactions that no worker could label."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    cache_hits: int = 0
    metrics: str = START
    dead_letters: str = START
    reasons: Counter[str] = Field(default_factory=Counter)
    """Dead letters by reason."""

    @property
    def done(self) -> int:
        """Finished interactions: labeled or dead-lettered."""
        return self.labeled + self.dead


class LabelingCounter:
    """Counts labeled and dead-lettered interactions, in the one process that publishes into the workspace."""

    def __init__(self, redis: Redis, streams: Streams) -> None:
        self._redis = redis
        self._streams = streams
        self.progress = LabelingProgress()

    async def begin(self) -> None:
        """Continue with the stored counts."""
        await pin(self._redis, self._streams.metrics, REPLAY_GROUP)
        stored = await self._redis.hget(self._streams.replay, ReplayField.PROGRESS)
        if stored is not None:
            self.progress = LabelingProgress.model_validate_json(stored)

    async def read(self) -> LabelingProgress:
        """Count the entries since the last call, and return the progress."""
        streams, progress = self._streams, self.progress
        while True:
            positions = {streams.metrics: progress.metrics, streams.dead_letters: progress.dead_letters}
            reply = await read_after(self._redis, positions, count=AT_ONCE, block_ms=None)
            for stream, entries in reply:
                for entry in entries:
                    if stream == streams.metrics:
                        _count_event(progress, MetricEvent.decode(entry.fields[DATA_FIELD]))
                        progress.metrics = entry.entry_id
                    else:
                        dead_letter = DeadLetter.decode(entry.fields[DATA_FIELD])
                        progress.reasons[dead_letter.reason] += 1
                        progress.dead += dead_letter.stream == streams.interactions
                        progress.dead_letters = entry.entry_id
            if not reply:
                return progress
            # Store the counts, then release the entries: after a crash in between the entries are still there.
            await self._redis.hset(streams.replay, ReplayField.PROGRESS, progress.model_dump_json())
            await move_pin(self._redis, streams.metrics, REPLAY_GROUP, progress.metrics)


def _count_event(progress: LabelingProgress, event: MetricEvent) -> None:
    if event.is_tick:
        return
    progress.labeled += 1
    progress.sessions += event.is_session
    progress.prompt_tokens += event.prompt_tokens
    progress.completion_tokens += event.completion_tokens
    progress.cost_usd += event.cost_usd
    progress.cache_hits += event.counters.get("cache_hits", 0)


@dataclass(frozen=True, slots=True)
class RelabelProgress:
    """Progress of a replay of interactions."""

    published: PublishProgress
    labeling: LabelingProgress
    total: int
    complete: bool = False
    over_cost: bool = False
    """Whether the replay stopped because the next interactions would exceed the cost limit."""

    @property
    def projected_usd(self) -> float | None:
        """Cost of all interactions, if the rest costs as much as the labeled ones did on average."""
        labeled = self.labeling.labeled
        return self.labeling.cost_usd / labeled * self.total if labeled else None


Show = Callable[[RelabelProgress], None]


class Relabeling:
    """Labels recorded interactions again in this process; workers of other processes may join.

    Args:
        items: interactions to replay.
        counted: number of interactions, by pipeline.
        run: run of the published interactions.
        speed: recorded seconds per second; None for as fast as possible.
        max_cost_usd: cost at which the replay stops.
    """

    def __init__(
        self,
        settings: Settings,
        url: str,
        items: RecordedInteractions,
        counted: EntryCounts,
        *,
        run: str,
        speed: float | None,
        max_cost_usd: float | None,
    ) -> None:
        self._settings = settings
        self._url = url
        self._items = items
        self._counted = counted
        self._run = run
        self._speed = speed
        self._max_cost_usd = max_cost_usd
        self._streams = Streams(settings.prefix, 0)
        self._over_cost = False

    async def run(self, stop: asyncio.Event, show: Show) -> RelabelProgress:
        """Replay until all interactions are labeled and aggregated, `stop` is set, or the cost limit is reached.

        Raises:
            ReplayError: another process replays into the workspace.
        """
        roles_stop = asyncio.Event()
        roles = asyncio.create_task(
            serve(self._settings, self._url, roles_stop, worker=True, aggregator=True, process=ProcessTelemetry())
        )
        async with connect_async(self._url) as redis:
            replay = asyncio.create_task(self._replay(redis, stop, show))
            try:
                await asyncio.wait([roles, replay], return_when=asyncio.FIRST_COMPLETED)
            finally:
                roles_stop.set()
                if not replay.done():
                    await end(replay)
            await roles
            return replay.result()

    async def _replay(self, redis: Redis, stop: asyncio.Event, show: Show) -> RelabelProgress:
        counter = LabelingCounter(redis, self._streams)
        await counter.begin()
        published = await read_published(redis, self._streams)
        publisher = ReplayPublisher(
            redis,
            self._streams,
            self._run,
            lambda pipeline: self._counted.scopes[Scope((pipeline,))],
            user_ids=UserIds.of(self._settings),
            dedupe_window_s=self._settings.dedupe_window_s,
            position=published.position,
        )
        items = self._items.after(published.position)
        pace = ReplayPace(self._speed)
        waiting: list[ReplayedInteraction] = []
        exhausted = False
        while not stop.is_set():
            labeling = await counter.read()
            room = self._room(published.published - labeling.done, labeling)
            if not waiting and not exhausted:
                waiting = await asyncio.to_thread(lambda: list(islice(items, BATCH)))
                exhausted = not waiting
            due = list(
                takewhile(
                    lambda item: pace.wait_s(item.interaction.occurred_at, monotonic()) <= 0,
                    waiting[: min(room, BATCH)],
                )
            )
            if due:
                await publisher.publish(due)
                waiting = waiting[len(due) :]
                published = await read_published(redis, self._streams)
            show(RelabelProgress(published, labeling, self._counted.total))
            labeled = labeling.done >= published.published
            if labeled and (exhausted or self._over_cost) and await self._is_aggregated(redis):
                return RelabelProgress(published, labeling, self._counted.total, exhausted, self._over_cost)
            if not due:
                await asyncio.sleep(POLL_S)
        return RelabelProgress(published, await counter.read(), self._counted.total)

    def _room(self, out: int, labeling: LabelingProgress) -> int:
        limit = self._max_cost_usd
        if limit is None:
            return max(LEAD - out, 0)
        if not labeling.labeled:
            self._over_cost = limit <= 0
            return 0 if self._over_cost else max(PROBES - out, 0)
        mean_usd = labeling.cost_usd / labeling.labeled
        self._over_cost = mean_usd > 0 and labeling.cost_usd + (out + 1) * mean_usd > limit
        if self._over_cost:
            return 0
        affordable = LEAD if mean_usd == 0 else int((limit - labeling.cost_usd) / mean_usd)
        # Publish no more than are labeled already: the mean cost of a few interactions may be far off.
        return max(min(LEAD, affordable, max(labeling.labeled, PROBES)) - out, 0)

    async def _is_aggregated(self, redis: Redis) -> bool:
        streams = self._streams
        fields = [CheckpointField.POSITION, CheckpointField.FEEDBACK_POSITION]
        stored = cast("list[bytes | None]", await redis.hmget(streams.checkpoint, fields))
        ends = [await last_id(redis, streams.metrics), await last_id(redis, streams.feedback)]
        return all(end_ == "0-0" or (at or b"").decode() == end_ for at, end_ in zip(stored, ends, strict=True))
