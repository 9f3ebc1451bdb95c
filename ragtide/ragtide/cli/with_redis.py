"""Runs the body of a command with a client of the Redis that the settings name, live or of a workspace."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.failures import explained
from ragtide_runtime.redis.layout import check_layout
from ragtide_runtime.redis.url import RedisHandle, redact, resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace

from .options import given

T = TypeVar("T")


def with_redis(
    settings: Settings,
    body: Callable[[Redis, RedisHandle], Awaitable[T]],
    *,
    any_layout: bool = False,
    convert: bool = False,
) -> T:
    """Run the body with a client of the Redis that the settings name, and return its result.

    Args:
        settings: of the deployment.
        body: coroutine function to run.
        any_layout: whether the deployment may have another layout than the settings.
        convert: whether an embedded server may convert the data of an older one (`resolve_redis`).

    Raises:
        ConfigurationError: the deployment has another layout than the settings.
        RedisUnavailable: Redis cannot be started or reached.
    """

    async def run(handle: RedisHandle) -> T:
        redis = connect_async(handle.url)
        try:
            if not any_layout:
                await check_layout(redis, settings.layout)
            return await body(redis, handle)
        finally:
            await redis.aclose()

    with resolve_redis(settings.redis_address, settings.data_dir, convert=convert) as handle:
        try:
            return asyncio.run(run(handle))
        except RedisError as error:
            raise RedisUnavailable(f"{redact(handle.url)}: {explained(error)}; try again when Redis works") from error


def settings_with(context: typer.Context, workspace: str | None, *, roles: bool = False) -> Settings:
    """Return the settings of the deployment or, with a name, of one of its workspaces.

    Args:
        context: of the command.
        workspace: its name; None for the deployment.
        roles: whether roles of the workspace are to work on its interactions.

    Raises:
        ConfigurationError: there is no workspace of that name, or no role works on it.
    """
    settings = given(context).settings()
    if workspace is None:
        return settings
    return with_redis(settings, lambda redis, _: settings_of(redis, settings, workspace, roles=roles))


async def settings_of(redis: Redis, settings: Settings, workspace: str, *, roles: bool = False) -> Settings:
    """Return the settings of a workspace.

    Raises:
        ConfigurationError: there is no workspace of that name, or `roles` are needed and no role works on it.
    """
    from ragtide_offline.replay.plan import settings_of_replay  # noqa: PLC0415 - imports recordings too

    info = await get_workspace(redis, settings, workspace)
    if roles and info.options.get("in_parts"):
        raise ConfigurationError(
            f"workspace {workspace!r} is of ragtide replay --processes, and no role reads its interactions: replay the "
            "recording into another workspace"
        )
    return settings_of_replay(settings, info)
