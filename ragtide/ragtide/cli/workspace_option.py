"""The option `--workspace`: a command reads or serves the keys of a replay or experiment instead of live traffic."""

from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_offline.replay.plan import settings_of_replay
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace

from .common import given, with_redis

WorkspaceOption = Annotated[
    str | None,
    typer.Option("--workspace", help="A replay or experiment (ragtide workspaces), instead of live traffic."),
]


def settings_with(context: typer.Context, workspace: str | None) -> Settings:
    """Return the settings of the deployment, or of one of its workspaces if a name is given.

    Raises:
        ConfigurationError: there is no workspace of that name.
    """
    settings = given(context).settings()
    if workspace is None:
        return settings
    return with_redis(settings, lambda redis, _: settings_of(redis, settings, workspace))


async def settings_of(redis: Redis, settings: Settings, workspace: str) -> Settings:
    """Return the settings of a workspace.

    Raises:
        ConfigurationError: there is no workspace of that name.
    """
    return settings_of_replay(settings, await get_workspace(redis, settings, workspace))
