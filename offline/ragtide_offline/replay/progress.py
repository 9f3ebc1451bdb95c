"""What became of the interactions of a replay, and what it cost: read off the run's own streams, whoever labels."""

from collections import Counter

from pydantic import BaseModel, Field
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import DATA_FIELD, REPLAY_GROUP, ReplayField, Streams
from ragtide_runtime.redis.log import START, move_pin, pin, read_after
from ragtide_schemas import DeadLetter, MetricEvent

AT_ONCE = 1000


class Tally(BaseModel):
    """Counts so far, and how far the streams were read for them."""

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
    """Of dead letters."""

    @property
    def done(self) -> int:
        """Interactions that nothing more will become of."""
        return self.labeled + self.dead


class Tallying:
    """Keeps the tally of a run. Only the process that feeds the run may do it."""

    def __init__(self, redis: Redis, streams: Streams) -> None:
        self._redis = redis
        self._streams = streams
        self.tally = Tally()

    async def begin(self) -> None:
        """Go on with what was counted before."""
        await pin(self._redis, self._streams.metrics, REPLAY_GROUP)
        stored = await self._redis.hget(self._streams.replay, ReplayField.PROGRESS)
        if stored is not None:
            self.tally = Tally.model_validate_json(stored)

    async def read(self) -> Tally:
        """Count what came since the last time, and return the tally."""
        streams, tally = self._streams, self.tally
        while True:
            positions = {streams.metrics: tally.metrics, streams.dead_letters: tally.dead_letters}
            found = await read_after(self._redis, positions, count=AT_ONCE, block_ms=None)
            for stream, entries in found:
                for entry in entries:
                    if stream == streams.metrics:
                        _count_event(tally, MetricEvent.decode(entry.fields[DATA_FIELD]))
                        tally.metrics = entry.entry_id
                    else:
                        _count_letter(tally, DeadLetter.decode(entry.fields[DATA_FIELD]), streams)
                        tally.dead_letters = entry.entry_id
            if not found:
                return tally
            # First what was counted; what is only then let go is, after a crash in between, still there.
            await self._redis.hset(streams.replay, ReplayField.PROGRESS, tally.model_dump_json())
            await move_pin(self._redis, streams.metrics, REPLAY_GROUP, tally.metrics)


def _count_event(tally: Tally, event: MetricEvent) -> None:
    tally.labeled += 1
    tally.prompt_tokens += event.prompt_tokens
    tally.completion_tokens += event.completion_tokens
    tally.cost_usd += event.cost_usd
    tally.cache_hits += event.counters.get("cache_hits", 0)


def _count_letter(tally: Tally, letter: DeadLetter, streams: Streams) -> None:
    tally.reasons[letter.reason] += 1
    if letter.stream == streams.interactions:
        tally.dead += 1
