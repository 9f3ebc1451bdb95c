"""The workspaces of a deployment: their list, their settings, and the removal of a workspace with all its keys."""

from pathlib import Path
from shutil import rmtree
from typing import cast

from redis.asyncio import Redis

from ragtide_schemas import InvalidEntryError, Reason, Workspace
from ragtide_schemas.suggestions import unknown
from ragtide_schemas.workspace import WorkspaceName, is_workspace_name

from .errors import ConfigurationError
from .redis.entries import Unreadable
from .redis.keys import Streams, deployment_prefix, workspace_prefix
from .settings.model import Settings

SCANNED_AT_ONCE = 500
"""Keys that one command scans."""


def settings_of_workspace(settings: Settings, workspace: WorkspaceName | Workspace) -> Settings:
    """Return the settings of a deployment for one of its workspaces.

    A workspace given by name has one partition.
    """
    partitions, splits = (workspace.partitions, workspace.splits) if isinstance(workspace, Workspace) else (1, {})
    name = workspace.run if isinstance(workspace, Workspace) else workspace
    return settings.model_copy(
        update={
            "prefix": workspace_prefix(settings.prefix, name),
            "partitions": partitions,
            "splits": dict(splits),
            "http_port": None,
        }
    )


async def register_workspace(redis: Redis, settings: Settings, workspace: Workspace) -> Workspace:
    """Add a workspace to the deployment's list, unless the list has that name, and return the listed entry."""
    await redis.hsetnx(_key(settings), workspace.run, workspace.encode().decode())
    listed = await find_workspace(redis, settings, workspace.run)
    assert listed is not None  # noqa: S101 - for the type checker: it was just listed
    return listed


async def find_workspace(redis: Redis, settings: Settings, name: str) -> Workspace | None:
    """Return the listed entry of a workspace; None if there is no workspace of that name.

    Raises:
        ConfigurationError: the entry of that name cannot be read.
    """
    data = cast("bytes | None", await redis.hget(_key(settings), name))
    try:
        return None if data is None else _decode(name, data)
    except InvalidEntryError as error:
        raise ConfigurationError(
            f"workspace {name!r} cannot be read ({error}): use the release of ragtide that wrote it, or remove the "
            f"workspace with ragtide replay workspaces remove {name}"
        ) from None


async def get_workspace(redis: Redis, settings: Settings, name: str) -> Workspace:
    """Return the listed entry of a workspace.

    Raises:
        ConfigurationError: there is no workspace of that name, or its entry cannot be read.
    """
    listed = await find_workspace(redis, settings, name)
    if listed is None:
        known = [workspace.run for workspace in await list_workspaces(redis, settings)]
        raise ConfigurationError(unknown("workspace", name, known))
    return listed


async def list_workspaces(redis: Redis, settings: Settings, unreadable: Unreadable | None = None) -> list[Workspace]:
    """Return every workspace of the deployment, the oldest first; unreadable entries are counted and left out."""
    stored = cast("dict[bytes, bytes]", await redis.hgetall(_key(settings)))
    workspaces: list[Workspace] = []
    for field, data in stored.items():
        name = field.decode(errors="replace")
        try:
            workspaces.append(_decode(name, data))
        except InvalidEntryError as error:
            if unreadable is not None:
                unreadable.add(repr(name), error)
    return sorted(workspaces, key=lambda workspace: workspace.created_at)


def _decode(name: str, data: bytes) -> Workspace:
    workspace = Workspace.decode(data)
    if workspace.run != name:
        raise InvalidEntryError(Reason.INVALID, f"run is {workspace.run!r}, but it is listed under another name")
    return workspace


async def remove_listed_workspace(redis: Redis, settings: Settings, name: str) -> int:
    """Remove a listed workspace, readable or not, and return the number of removed keys.

    Raises:
        ConfigurationError: there is no workspace of that name.
    """
    if not await redis.hexists(_key(settings), name):
        await get_workspace(redis, settings, name)
    if is_workspace_name(name):
        return await remove_workspace(redis, settings, name)
    # No workspace can have such a name, so it has no keys, and the name must not become a pattern of keys.
    await redis.hdel(_key(settings), name)
    return 0


async def remove_workspace(redis: Redis, settings: Settings, name: WorkspaceName) -> int:
    """Remove a workspace with all its keys, and return their number; the deployment's own keys are not touched."""
    removed = 0
    async for key in redis.scan_iter(match=f"{workspace_prefix(settings.prefix, name)}:*", count=SCANNED_AT_ONCE):
        removed += int(await redis.unlink(key))  # one by one, because keys of a cluster need not share a slot
    await redis.hdel(_key(settings), name)
    return removed


def parts_folder(settings: Settings, name: WorkspaceName) -> Path:
    """Return the folder of the data directory with the interactions of a workspace that processes labeled in parts."""
    return settings.data_dir / "relabeled" / f"{deployment_prefix(settings.prefix)}.{name}"


def remove_parts(settings: Settings, name: str) -> None:
    """Remove the parts of a workspace, if there are any; no process may be writing them."""
    if is_workspace_name(name):
        rmtree(parts_folder(settings, name), ignore_errors=True)


def _key(settings: Settings) -> str:
    return Streams(deployment_prefix(settings.prefix), 0).workspaces
