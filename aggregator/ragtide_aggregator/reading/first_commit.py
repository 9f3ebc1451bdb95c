"""Whether anything has been aggregated: before that, no reader of numbers is needed, nor imported."""

from redis.asyncio import Redis

from ragtide_runtime.settings.model import Settings

from ..checkpoint.windows import windows_of


async def has_commits(redis: Redis, settings: Settings) -> bool:
    """Return whether a partition has a checkpoint; without one there are no estimates, headlines and levels.

    Raises:
        ConfigurationError: a window in the settings is invalid, which a reader of numbers would refuse.
    """
    windows_of(settings)
    async with redis.pipeline(transaction=False) as pipe:
        for streams in settings.layout.all():
            pipe.exists(streams.checkpoint)
        return any(await pipe.execute())
