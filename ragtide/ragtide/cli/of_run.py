"""The settings of a command that is given a run: they name the run's own keys."""

from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_offline.replay.plan import settings_of_replay
from ragtide_runtime.runs import find_run, the_run
from ragtide_runtime.settings.model import Settings

from .common import given, with_redis

RunOption = Annotated[
    str | None, typer.Option("--run", help="A run that has keys of its own (ragtide runs), instead of live traffic.")
]


def settings_with(context: typer.Context, run: str | None) -> Settings:
    """Return the settings of the deployment, or of one of its runs if that is given.

    Raises:
        ConfigurationError: there is no run of that name.
    """
    settings = given(context).settings()
    return settings if run is None else with_redis(settings, lambda redis, _: settings_of(redis, settings, run))


async def settings_of(redis: Redis, settings: Settings, run: str) -> Settings:
    """Return the settings of a run.

    Raises:
        ConfigurationError: there is no run of that name.
    """
    return settings_of_replay(settings, await the_run(redis, settings, run))


async def settings_if_run(redis: Redis, settings: Settings, run: str | None) -> Settings | None:
    """Return the settings of a run that has its own keys; None if there is no such run of that name."""
    known = None if run is None else await find_run(redis, settings, run)
    return None if known is None else settings_of_replay(settings, known)
