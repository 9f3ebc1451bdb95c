"""The option `--workspace`, with which a command uses a replay or experiment instead of live traffic."""

from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace

from .common import given
from .with_redis import with_redis

WorkspaceOption = Annotated[
    str | None,
    typer.Option("--workspace", help="Use a replay or experiment (see ragtide workspaces), not live traffic."),
]


def settings_with(context: typer.Context, workspace: str | None) -> Settings:
    """Return the settings of the deployment or, with a name, of one of its workspaces.

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
    from ragtide_offline.replay.plan import settings_of_replay  # noqa: PLC0415 - imports recordings too

    return settings_of_replay(settings, await get_workspace(redis, settings, workspace))
