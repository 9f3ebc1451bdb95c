"""Findings of `ragtide doctor` about Redis itself: its version, durability, replicas and memory."""

from dataclasses import replace
from typing import Any

from redis import ResponseError
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from ragtide_runtime.redis.eviction import SAFE, danger_of
from ragtide_runtime.redis.failures import FAILURES, explained
from ragtide_runtime.redis.server.binary import MINIMUM_VERSION

from .finding import Finding


async def server_findings(redis: Redis) -> list[Finding]:
    """Return findings about every server that takes writes: the server, or each master of a cluster by name."""
    found: list[Finding] = []
    try:
        infos = await servers(redis)
    except ResponseError as error:
        unseen = f"INFO is refused, so version, durability, memory and eviction are not checked: {explained(error)}"
        return [Finding("warning", "server", unseen, "allow INFO, or check them yourself")]
    for name, info in infos:
        about = [_version(info), *_refusals(info), _durability(info), *_replicas(info), _memory(info)]
        found += [replace(finding, subject=name + finding.subject) for finding in about]
    return found


async def servers(redis: Redis) -> list[tuple[str, dict[str, Any]]]:
    """Return the reply to INFO of every server that takes writes, with its name in a cluster, else an empty name."""
    if isinstance(redis, RedisCluster):
        found = await redis.info(target_nodes=RedisCluster.PRIMARIES)
        return [(f"{name}: ", info) for name, info in sorted(found.items())]
    return [("", await redis.info())]


def _version(info: dict[str, Any]) -> Finding:
    version = str(info.get("valkey_version", info["redis_version"]))
    if tuple(int(part) for part in version.split(".")[:2]) >= MINIMUM_VERSION[:2]:
        return Finding("ok", "version", version)
    return Finding("problem", "version", version, "use Redis 6.2 or newer, or Valkey")


def _refusals(info: dict[str, Any]) -> list[Finding]:
    """Return why the server refuses writes now."""
    found = []
    if info.get("role") == "slave":
        found.append(Finding("problem", "writes", "this server is a replica", FAILURES["READONLY"].remedy))
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        found.append(Finding("problem", "writes", "the last snapshot failed", FAILURES["MISCONF"].remedy))
    if 0 < int(info.get("maxmemory", 0)) <= int(info.get("used_memory", 0)):
        found.append(Finding("problem", "writes", "the memory is full", FAILURES["OOM"].remedy))
    return found


def _durability(info: dict[str, Any]) -> Finding:
    if not info.get("aof_enabled"):
        found = "no append-only file: a crash of Redis loses everything since its last snapshot"
        return Finding("warning", "durability", found, "set appendonly yes")
    if info.get("aof_last_write_status") != "ok":
        found = "the append-only file cannot be written"
        return Finding("problem", "durability", found, FAILURES["MISCONF"].remedy)
    return Finding("ok", "durability", "append-only file")


def _replicas(info: dict[str, Any]) -> list[Finding]:
    count = int(info.get("connected_slaves", 0))
    if not count:
        return []
    return [Finding("ok", "replicas", f"{count}; a failover loses entries that they have not received yet")]


def _memory(info: dict[str, Any]) -> Finding:
    policy = str(info.get("maxmemory_policy", SAFE))
    used = f"{info.get('used_memory_human', '?')} used"
    danger = danger_of(policy)
    if not danger:
        return Finding("ok", "memory", f"{used}, {policy}")
    advice = f"set maxmemory-policy {SAFE}: otherwise data disappear silently, and an interaction may count twice"
    if info.get("maxmemory"):
        return Finding("problem", "memory", f"{used}, eviction policy {policy} may drop {danger}", advice)
    found = f"{used}, eviction policy {policy} may drop {danger} as soon as maxmemory is set"
    return Finding("warning", "memory", found, advice)
