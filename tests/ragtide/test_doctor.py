"""What `ragtide doctor` says of a Redis that cannot be trusted; the rest is in the end-to-end tests."""

from typing import Any

import pytest

from ragtide.cli.doctor import Finding, examine
from ragtide_runtime.settings import Settings


async def findings(redis: Any) -> dict[str, Finding]:
    return {finding.subject: finding for finding in await examine(redis, Settings(), "a Redis")}


@pytest.mark.parametrize(
    ("policy", "maxmemory", "level", "words"),
    [
        ("noeviction", "1gb", "ok", "noeviction"),
        ("allkeys-lru", "1gb", "problem", "may drop streams"),
        ("volatile-ttl", "1gb", "problem", "may drop leases"),
        ("allkeys-lru", "0", "ok", "used"),
    ],
)
async def test_a_redis_that_may_drop_what_is_needed_is_a_problem(
    async_redis: Any, policy: str, maxmemory: str, level: str, words: str
) -> None:
    try:
        await async_redis.config_set("maxmemory", maxmemory)
        await async_redis.config_set("maxmemory-policy", policy)
        found = (await findings(async_redis))["memory"]
    finally:
        await async_redis.config_set("maxmemory-policy", "noeviction")
        await async_redis.config_set("maxmemory", "0")
    assert found.level == level
    assert words in found.found
    assert (found.advice != "") == (level == "problem")
