"""Reads the sentinels of the settings, and asks them beside a worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import workspace_of
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from ragtide_consumers.labelers.judge.labeler import JudgeLabeler
    from ragtide_consumers.sentinels.service import Sentinel


SENTINELS_MAX: Final = 40
"""Most sentinels that are asked; of a file with more, a hash of their texts selects these."""


def asks_sentinels(settings: Settings) -> bool:
    """Return whether a worker with these settings asks sentinels: with a judge, and of live traffic only."""
    has_judge = "judge" in settings.labelers and settings.judge.model is not None
    return settings.judge.sentinels is not None and has_judge and workspace_of(settings.prefix) is None


def read_sentinels(settings: Settings) -> "list[Sentinel]":
    """Return the sentinels of the file that the settings name.

    Raises:
        ConfigurationError: the file cannot be read, or no judge can label any row of it.
    """
    from ragtide_consumers.sentinels.service import sentinels_of  # noqa: PLC0415 - most workers have none
    from ragtide_producers import FileOptions, UnreadableFileError, read_rows  # noqa: PLC0415 - as above

    path = settings.judge.sentinels
    if path is None:
        return []
    try:
        rows = list(read_rows(path, FileOptions(unnamed="unnamed")))
    except UnreadableFileError as error:
        raise ConfigurationError(f"judge.sentinels: {error}") from None
    problem = next((row.problem for row in rows if row.problem), "it is empty")
    sentinels = sentinels_of([row.interaction for row in rows if row.interaction is not None], SENTINELS_MAX)
    if not sentinels:
        raise ConfigurationError(
            f"judge.sentinels = {str(path)!r} has no interaction with documents and a response ({problem}): name a "
            "file that ragtide score reads"
        )
    return sentinels


@asynccontextmanager
async def sentinel_judge(settings: Settings, redis: "Redis") -> "AsyncIterator[JudgeLabeler]":
    """Build the judge as sentinels are asked: once each, past the cache, and with no other labeler in its place."""
    from ragtide_consumers.labelers.judge.labeler import make_judge  # noqa: PLC0415
    from ragtide_consumers.labelers.remote.telemetry import LabelerTelemetry  # noqa: PLC0415 - as above

    once = settings.model_copy(update={"judge": settings.judge.model_copy(update={"repeat_share": 0.0})})
    judge = make_judge(once, redis, LabelerTelemetry().judge, fallback=None)
    try:
        yield judge.without_cache()
    finally:
        await judge.aclose()


async def ask_sentinels(settings: Settings, url: str, stop: asyncio.Event, process: ProcessTelemetry) -> None:
    """Ask the sentinels of the settings until stopped, while no other worker of the deployment does.

    Raises:
        ConfigurationError: the file cannot be read, or has no sentinel.
    """
    from ragtide_consumers.sentinels.service import Sentinels  # noqa: PLC0415 - as above

    sentinels = await asyncio.to_thread(read_sentinels, settings)
    async with connect_async(url) as redis, sentinel_judge(settings, redis) as judge:
        await Sentinels(redis, settings, judge, sentinels, process).run(stop)
