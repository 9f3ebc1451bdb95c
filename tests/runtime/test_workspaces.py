from typing import Any

import pytest

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import deployment_prefix, workspace_prefix
from ragtide_runtime.settings.model import load_settings
from ragtide_runtime.workspaces import (
    find_workspace,
    get_workspace,
    list_workspaces,
    register_workspace,
    remove_workspace,
    settings_of_workspace,
)
from ragtide_schemas import Workspace


def info(name: str, source: str = "there") -> Workspace:
    return Workspace(run=name, kind="replay", source=source, population_size=3)


def test_a_runs_keys_are_its_own() -> None:
    settings = load_settings(prefix="shop", partitions=4, splits={"big": 2})
    own = settings_of_workspace(settings, "may")
    assert own.prefix == "shop.run.may"
    assert (own.partitions, own.splits) == (1, {})
    assert own.layout.of("big", "i").interactions == "shop.run.may:{0}:interactions"
    # A run's settings lead to another run of the same deployment, not to one inside of it.
    assert settings_of_workspace(own, "june").prefix == "shop.run.june"
    assert deployment_prefix(workspace_prefix("shop", "may")) == "shop"


@pytest.mark.parametrize("name", ["", "a b", "x" * 49, "a:b", "a.run.b", "ä"])
def test_a_run_name_that_cannot_be_a_key_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="run"):
        info(name)


async def test_the_first_of_a_name_is_listed(async_redis: Any) -> None:
    settings = load_settings()
    assert (await register_workspace(async_redis, settings, info("a", "first"))).source == "first"
    assert (await register_workspace(async_redis, settings, info("a", "second"))).source == "first"
    await register_workspace(async_redis, settings_of_workspace(settings, "a"), info("b"))
    assert [workspace.run for workspace in await list_workspaces(async_redis, settings)] == ["a", "b"]
    assert await find_workspace(async_redis, settings, "c") is None
    with pytest.raises(ConfigurationError, match=r"workspace 'c'\. There are: a, b"):
        await get_workspace(async_redis, settings, "c")


async def test_removing_a_run_leaves_everything_else(async_redis: Any) -> None:
    settings = load_settings()
    for name in ("a", "ab"):
        await register_workspace(async_redis, settings, info(name))
        for number in range(3):
            await async_redis.set(f"{workspace_prefix('ragtide', name)}:{{0}}:key-{number}", "x")
    await async_redis.set("ragtide:{0}:checkpoint", "live")
    assert await remove_workspace(async_redis, settings, "a") == 3
    assert [workspace.run for workspace in await list_workspaces(async_redis, settings)] == ["ab"]
    left = sorted(key.decode() for key in await async_redis.keys("*"))
    assert left == [
        "ragtide.run.ab:{0}:key-0", "ragtide.run.ab:{0}:key-1", "ragtide.run.ab:{0}:key-2",
        "ragtide:{0}:checkpoint", "ragtide:{0}:workspaces",
    ]  # fmt: skip
