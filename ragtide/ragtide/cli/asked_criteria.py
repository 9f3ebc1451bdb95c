"""The criteria that a deployment asks: those of the settings, and those that operators stored in Redis.

The commands that need them work without Redis, too. They then know the criteria of the settings only, and say so.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from redis import RedisError

from ragtide_consumers.labelers.published import all_criteria
from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.failures import explained
from ragtide_runtime.redis.keys import workspace_of
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.redis.url import redact, resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import StoredCriteria, read_stored_criteria, with_stored_criteria
from ragtide_schemas.criterion import BUILT_IN
from ragtide_schemas.metric_definitions import CRITERIA_FAMILY


@dataclass(frozen=True, slots=True)
class AskedCriteria:
    """The settings of a deployment, with the criteria that it asks in `judge.criteria`."""

    settings: Settings
    unread: str | None = None
    """Why the stored criteria are not among them, as a sentence; None if they are, or if none was looked for."""


def asked_criteria(settings: Settings) -> AskedCriteria:
    """Return the settings with the stored criteria, if Redis can be read. It starts no Redis.

    Args:
        settings: of the deployment.
    """
    if workspace_of(settings.prefix) is not None:  # it asks the criteria of its settings only
        return AskedCriteria(settings)
    if not settings.redis_address and not EmbeddedRedis.runs_in(settings.data_dir):
        return AskedCriteria(settings, _unread("no Redis is set (RAGTIDE_REDIS_URL), and none runs here"))

    async def body(url: str) -> StoredCriteria:
        async with connect_async(url) as redis:
            return await read_stored_criteria(redis, settings.prefix)

    try:
        with resolve_redis(settings.redis_address, settings.data_dir) as handle:
            try:
                stored = asyncio.run(body(handle.url))
            except RedisError as error:
                return AskedCriteria(settings, _unread(f"{redact(handle.url)}: {explained(error)}"))
    except RedisUnavailable as error:
        return AskedCriteria(settings, _unread(str(error)))
    return AskedCriteria(with_stored_criteria(settings, stored))


def criteria_of_metrics(settings: Settings, metrics: Iterable[str]) -> AskedCriteria:
    """Return the settings with the stored criteria if a metric may be that of one; Redis is not read otherwise.

    Args:
        settings: of the deployment.
        metrics: names of metrics; a field of a gate may follow a name.
    """
    of_settings = {criterion.metric for criterion in all_criteria(settings)}
    if any(_may_be_stored(metric.removeprefix("rmse."), of_settings) for metric in metrics):
        return asked_criteria(settings)
    return AskedCriteria(settings)


def _may_be_stored(metric: str, of_settings: set[str]) -> bool:
    name = ".".join(metric.split(".")[:2])
    return name not in of_settings and (name in BUILT_IN or name.startswith(f"{CRITERIA_FAMILY}."))


def _unread(reason: str) -> str:
    return f"Stored criteria were not read ({reason}): only those of the settings are known."
