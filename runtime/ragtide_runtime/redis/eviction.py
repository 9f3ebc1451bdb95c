"""Checks whether Redis may drop data when its memory is full, and counts the keys that it dropped."""

from typing import Any, Final, NamedTuple, cast

import structlog
from redis import RedisError, ResponseError
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

log = structlog.get_logger("ragtide.redis")

SAFE: Final = "noeviction"
"""The only policy that never drops data: a full Redis refuses writes instead, and roles wait."""


def danger_of(policy: str) -> str:
    """Return the data that an eviction policy may drop, in words; empty for the safe one.

    >>> danger_of("volatile-ttl")
    'leases and known interaction ids'
    """
    if policy == SAFE:
        return ""
    # Leases and known ids have a time to live; streams and checkpoints have none.
    return "leases and known interaction ids" if policy.startswith("volatile") else "streams, checkpoints and leases"


async def check_eviction(redis: Redis) -> None:
    """Log an error for each server whose eviction policy may drop data, and a hint if the policy cannot be read.

    A server without `maxmemory` evicts nothing yet. Its policy is still an error: `maxmemory` can be set while roles
    run, and then data disappear silently.
    """
    try:
        servers = await _memory(redis)
    except ResponseError as error:  # an ACL without INFO, or a managed Redis
        log.info("the eviction policy of Redis cannot be read", error=str(error), advice=f"make sure it is {SAFE}")
        return
    except RedisError:
        return  # the role meets the same failure at its next command and reports it
    for name, info in servers.items():
        policy = info.get("maxmemory_policy")
        if policy is None:
            log.info("the eviction policy of Redis cannot be read", server=name, advice=f"make sure it is {SAFE}")
        elif danger := danger_of(str(policy)):
            log.error(
                "the eviction policy of Redis may drop data",
                server=name,
                policy=str(policy),
                may_drop=danger,
                maxmemory=int(info.get("maxmemory", 0)),
                advice=f"set maxmemory-policy {SAFE}",
            )


class Evictions(NamedTuple):
    """The keys that a server has evicted since it started."""

    server: str
    """Names the run of the server; another after a restart."""
    keys: int
    policy: str


async def read_evictions(redis: Redis, key: str) -> Evictions | None:
    """Return the evictions of the server that has a key; None if it does not allow INFO.

    Args:
        redis: client.

    Raises:
        redis.RedisError: Redis does not answer.
    """
    try:
        if isinstance(redis, RedisCluster):
            by_node = await redis.info("everything", target_nodes=redis.get_node_from_key(key))
            info = next(iter(by_node.values())) if len(by_node) == 1 else by_node
        else:
            info = await redis.info("everything")
    except ResponseError:
        return None
    if "evicted_keys" not in info or "maxmemory_policy" not in info:
        return None
    return Evictions(str(info.get("run_id", "")), int(info["evicted_keys"]), str(info["maxmemory_policy"]))


async def _memory(redis: Redis) -> dict[str, dict[str, Any]]:
    if isinstance(redis, RedisCluster):
        return cast("dict[str, dict[str, Any]]", await redis.info("memory", target_nodes=RedisCluster.PRIMARIES))
    return {"redis": await redis.info("memory")}
