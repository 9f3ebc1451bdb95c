"""Counts the labeled and dead-lettered interactions of a replay, with their cost, from the streams of its workspace."""

from collections import Counter

from pydantic import BaseModel, Field
from redis.asyncio import Redis

from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import DATA_FIELD, REPLAY_GROUP, ReplayField, Streams
from ragtide_runtime.redis.log import move_pin, pin, read_after
from ragtide_schemas import DeadLetter, MetricEvent

AT_ONCE = 1000


class LabelingProgress(BaseModel):
    """Counts so far, with the positions up to which the streams are counted."""

    labeled: int = 0
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
            found = await read_after(self._redis, positions, count=AT_ONCE, block_ms=None)
            for stream, entries in found:
                for entry in entries:
                    if stream == streams.metrics:
                        _count_event(progress, MetricEvent.decode(entry.fields[DATA_FIELD]))
                        progress.metrics = entry.entry_id
                    else:
                        _count_dead_letter(progress, DeadLetter.decode(entry.fields[DATA_FIELD]), streams)
                        progress.dead_letters = entry.entry_id
            if not found:
                return progress
            # Store the counts, then release the entries: after a crash in between the entries are still there.
            await self._redis.hset(streams.replay, ReplayField.PROGRESS, progress.model_dump_json())
            await move_pin(self._redis, streams.metrics, REPLAY_GROUP, progress.metrics)


def _count_event(progress: LabelingProgress, event: MetricEvent) -> None:
    progress.labeled += 1
    progress.prompt_tokens += event.prompt_tokens
    progress.completion_tokens += event.completion_tokens
    progress.cost_usd += event.cost_usd
    progress.cache_hits += event.counters.get("cache_hits", 0)


def _count_dead_letter(progress: LabelingProgress, dead_letter: DeadLetter, streams: Streams) -> None:
    progress.reasons[dead_letter.reason] += 1
    if dead_letter.stream == streams.interactions:
        progress.dead += 1
