"""The runs of a deployment: their list, their settings, and removing one with all its keys."""

from collections.abc import AsyncIterator
from typing import cast

from redis.asyncio import Redis

from ragtide_schemas import InvalidEntryError, Reason, RunInfo, Streams, deployment_prefix, run_prefix
from ragtide_schemas.run import RunName, is_run_name

from .errors import ConfigurationError
from .redis.unreadable import Unreadable
from .settings.model import Settings

REMOVE_AT_ONCE = 500
"""Keys removed in one round trip."""


def settings_of_run(settings: Settings, run: RunName | RunInfo) -> Settings:
    """Return the settings of a deployment for one of its runs, which has its own keys.

    The run has one partition, unless its `RunInfo` has another number.
    """
    partitions, splits = (run.partitions, run.splits) if isinstance(run, RunInfo) else (1, {})
    name = run.run if isinstance(run, RunInfo) else run
    return settings.model_copy(
        update={
            "prefix": run_prefix(settings.prefix, name),
            "partitions": partitions,
            "splits": dict(splits),
            "http_port": None,
        }
    )


async def register_run(redis: Redis, settings: Settings, info: RunInfo) -> RunInfo:
    """Add a run to the deployment's list, unless the list has that name, and return the listed entry."""
    await redis.hsetnx(_key(settings), info.run, info.encode().decode())
    found = await find_run(redis, settings, info.run)
    assert found is not None  # noqa: S101 - for the type checker: it was just listed
    return found


async def find_run(redis: Redis, settings: Settings, run: str) -> RunInfo | None:
    """Return the listed entry of a run; None if there is no run of that name.

    Raises:
        ConfigurationError: the entry of that name in the list of runs cannot be read.
    """
    data = cast("bytes | None", await redis.hget(_key(settings), run))
    try:
        return None if data is None else _decode(run, data)
    except InvalidEntryError as error:
        raise ConfigurationError(
            f"run {run!r} cannot be read ({error}): use the release of ragtide that wrote it, or remove the run with "
            f"ragtide runs remove {run}"
        ) from None


async def the_run(redis: Redis, settings: Settings, run: str) -> RunInfo:
    """Return the listed entry of a run.

    Raises:
        ConfigurationError: there is no run of that name, or its entry cannot be read.
    """
    found = await find_run(redis, settings, run)
    if found is None:
        known = [info.run for info in await list_runs(redis, settings)]
        raise ConfigurationError(f"there is no run {run!r}: use one of {', '.join(known) or '(none yet)'}")
    return found


async def list_runs(redis: Redis, settings: Settings, unreadable: Unreadable | None = None) -> list[RunInfo]:
    """Return every run of the deployment, the oldest first; entries that cannot be read are counted and left out."""
    stored = cast("dict[bytes, bytes]", await redis.hgetall(_key(settings)))
    found: list[RunInfo] = []
    for field, data in stored.items():
        name = field.decode(errors="replace")
        try:
            found.append(_decode(name, data))
        except InvalidEntryError as error:
            if unreadable is not None:
                unreadable.add(repr(name), error)
    return sorted(found, key=lambda info: info.created_at)


def _decode(name: str, data: bytes) -> RunInfo:
    info = RunInfo.decode(data)
    if info.run != name:
        raise InvalidEntryError(Reason.INVALID, f"run is {info.run!r}, but it is listed under another name")
    return info


async def remove_listed(redis: Redis, settings: Settings, run: str) -> int:
    """Remove a run that is listed, readable or not, and return the number of keys.

    Raises:
        ConfigurationError: there is no run of that name.
    """
    if not await redis.hexists(_key(settings), run):
        await the_run(redis, settings, run)
    if is_run_name(run):
        return await remove_run(redis, settings, run)
    # No run has such a name, so it has no keys; and it must not become a pattern of keys.
    await redis.hdel(_key(settings), run)
    return 0


async def remove_run(redis: Redis, settings: Settings, run: RunName) -> int:
    """Remove a run with everything it wrote, and return the number of keys; live numbers are not touched."""
    removed = 0
    batch: list[bytes] = []
    async for key in _keys(redis, run_prefix(settings.prefix, run)):
        batch.append(key)
        if len(batch) == REMOVE_AT_ONCE:
            removed += await _unlink(redis, batch)
            batch = []
    removed += await _unlink(redis, batch)
    await redis.hdel(_key(settings), run)
    return removed


async def _keys(redis: Redis, prefix: str) -> AsyncIterator[bytes]:
    async for key in redis.scan_iter(match=f"{prefix}:*", count=REMOVE_AT_ONCE):
        yield key


async def _unlink(redis: Redis, keys: list[bytes]) -> int:
    # Each key is removed by itself: on a cluster the keys need not share a slot.
    for key in keys:
        await redis.unlink(key)
    return len(keys)


def _key(settings: Settings) -> str:
    return Streams(deployment_prefix(settings.prefix), 0).runs
