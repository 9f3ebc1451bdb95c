"""What `ragtide doctor` says of a Redis that cannot be trusted; the rest is in the end-to-end tests."""

from typing import Any

import pytest

from ragtide import ConfigurationError
from ragtide.cli.common import Given
from ragtide.cli.doctor import Finding, examine
from ragtide_runtime.settings import Settings
from ragtide_schemas import LABEL_GROUP, Streams


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


async def test_owners_lags_dead_letters_drops_and_what_redis_lost_are_shown(async_redis: Any) -> None:
    streams = Streams("ragtide", 0)
    await async_redis.xgroup_create(streams.interactions, LABEL_GROUP, id="0", mkstream=True)
    for number in range(5):
        await async_redis.xadd(streams.interactions, {"data": str(number)})
    await async_redis.xreadgroup(LABEL_GROUP, "w", {streams.interactions: ">"}, count=2)
    await async_redis.xadd(streams.metrics, {"data": "x"})
    await async_redis.xadd(streams.dead_letters, {"data": "x"})
    await async_redis.set(streams.lease, "3:host-1:abc")
    await async_redis.hset(streams.aggregators, "host-1:abc", "99999999999999 1")
    await async_redis.hincrby(streams.dropped, "drop_new", 7)
    await async_redis.hset(streams.checkpoint, "went_back", '{"times": 2, "at": "2026-11-21T10:00:00"}')
    found = await findings(async_redis)
    assert "5 waiting (2 taken), the oldest for" in found["partition 0: labeling"].found
    assert "1 workers" in found["partition 0: labeling"].found
    assert found["partition 0: aggregator"].found == "owned by 3:host-1:abc, 1 metric events not yet aggregated"
    assert found["aggregators"].found == "host-1:abc owns 1"
    assert found["partition 0: dead letters"].level == "warning"
    assert found["partition 0: dropped"].found == "7 drop_new"
    assert found["partition 0: went back"].found.startswith("2 times, last on 2026-11-21")


async def test_a_redis_without_an_append_only_file_is_warned_about(async_redis: Any) -> None:
    try:
        await async_redis.config_set("appendonly", "no")
        found = (await findings(async_redis))["durability"]
    finally:
        await async_redis.config_set("appendonly", "yes")
    assert (found.level, found.advice) == ("warning", "set appendonly yes")


def test_the_number_of_partitions_can_be_given_on_the_command_line() -> None:
    assert Given(partitions=3).settings().partitions == 3
    with pytest.raises(ConfigurationError, match="partitions"):
        Given(partitions=0).settings()
