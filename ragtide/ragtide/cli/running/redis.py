"""Runs the body of a command with a client of Redis, live or of a workspace, and reads the criteria of a deployment."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from redis import RedisError
from redis.asyncio import Redis

from ragtide_consumers.labelers.published import all_criteria
from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.failures import explained
from ragtide_runtime.redis.keys import workspace_of
from ragtide_runtime.redis.layout import check_layout
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.redis.url import RedisHandle, redact, resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import StoredCriteria, read_stored_criteria, with_stored_criteria
from ragtide_runtime.workspaces import get_workspace
from ragtide_schemas.criterion import BUILT_IN
from ragtide_schemas.metric_definitions import CRITERIA_FAMILY

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


def asked_criteria(settings: Settings) -> tuple[Settings, str | None]:
    """Return the settings with the stored criteria in `judge.criteria`, and None; it starts no Redis.

    If Redis cannot be read, they are as they were, with a sentence about the reason.
    """
    if workspace_of(settings.prefix) is not None:  # it asks the criteria of its settings only
        return settings, None
    if not settings.redis_address and not EmbeddedRedis.runs_in(settings.data_dir):
        return settings, _unread("no Redis is set (RAGTIDE_REDIS_URL), and none runs here")

    async def body(url: str) -> StoredCriteria:
        async with connect_async(url) as redis:
            return await read_stored_criteria(redis, settings.prefix)

    try:
        with resolve_redis(settings.redis_address, settings.data_dir) as handle:
            try:
                stored = asyncio.run(body(handle.url))
            except RedisError as error:
                return settings, _unread(f"{redact(handle.url)}: {explained(error)}")
    except RedisUnavailable as error:
        return settings, _unread(str(error))
    return with_stored_criteria(settings, stored), None


def criteria_of_metrics(settings: Settings, metrics: Iterable[str]) -> tuple[Settings, str | None]:
    """Return the settings with the stored criteria if a metric may be that of one; Redis is not read otherwise.

    Args:
        metrics: names of metrics; a field of a gate may follow a name.
    """
    own = {criterion.metric for criterion in all_criteria(settings)}
    names = {".".join(metric.removeprefix("rmse.").split(".")[:2]) for metric in metrics} - own
    if any(name in BUILT_IN or name.startswith(f"{CRITERIA_FAMILY}.") for name in names):
        return asked_criteria(settings)
    return settings, None


def _unread(reason: str) -> str:
    return f"Stored criteria were not read ({reason}): only those of the settings are known."
