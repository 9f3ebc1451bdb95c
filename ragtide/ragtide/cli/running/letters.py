"""Dead letters that commands publish again or delete."""

from redis.asyncio import Redis

from ragtide_aggregator.reading.dead_letters import read_dead_letters
from ragtide_producers.publishing.retrying import Retrier
from ragtide_runtime.redis.entries import Unreadable
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings

from ..printing import warn


async def retry_letters(redis: Redis, settings: Settings, ids: list[str] | None) -> int:
    """Publish dead letters again, and return their number."""
    unreadable, retrier = Unreadable("dead letter"), Retrier(redis)
    retried = 0
    async for stored in read_dead_letters(redis, settings.layout.all(), unreadable, ids=ids):
        streams = Streams(settings.prefix, stored.partition)
        try:
            retried += await retrier.retry(streams, stored.letter_id, stored.letter)
        except ValueError as error:
            unreadable.add(f"{stored.letter_id} of {streams.dead_letters}", error)
    warn(*filter(None, [unreadable.warning()]))
    return retried


async def forget_letters(redis: Redis, settings: Settings, interaction_id: str, pipeline: str | None) -> int:
    """Delete the dead letters about an interaction, and return their number."""
    forgotten = 0
    async for stored in read_dead_letters(redis, settings.layout.all(), Unreadable("dead letter")):
        letter = stored.letter
        if letter.is_about(interaction_id) and (pipeline is None or letter.pipeline in (None, pipeline)):
            forgotten += await redis.xdel(Streams(settings.prefix, stored.partition).dead_letters, stored.letter_id)
    return forgotten
