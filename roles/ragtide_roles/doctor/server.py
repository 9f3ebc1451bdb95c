"""Findings of `ragtide doctor` about Redis itself: its version, durability, replicas and memory.

Known ids and the history have findings on the memory that they take, now and when they are full.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from redis import ResponseError
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from ragtide_aggregator.errors import DamagedFieldError
from ragtide_runtime.redis.eviction import SAFE, danger_of
from ragtide_runtime.redis.failures import FAILURES, explained
from ragtide_runtime.redis.keys import KNOWN_BUCKETS, KNOWN_SHARDS, Streams
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_scripts
from ragtide_runtime.redis.server.binary import MINIMUM_VERSION
from ragtide_runtime.settings.model import Settings

from .finding import Finding, count_of

if TYPE_CHECKING:
    from ragtide_aggregator.reading.deployment import Deployment

MIB: Final = 2**20

GIB: Final = 2**30

STORED_BYTES: Final = 26
"""About how many bytes of Redis's memory a known id takes, as `benchmarks/known_ids.py` measures."""

SPAN: Final = 1.125
"""Average lifetime of an id in windows; it exceeds one, because a bucket expires as a whole."""

SIZE: Final = Lua("known_ids_size")

LOOKED_AT: Final = 1000
"""Metric events from which the present rate is computed."""

RECORD_BYTES: Final = 126
"""About how many bytes of Redis's memory a closed pane takes, as `benchmarks/history.py` measures; of a pipeline with
sessions, or with sampled traffic, up to four times as many."""


async def server_findings(redis: Redis) -> list[Finding]:
    """Return findings about every server that takes writes: the server, or each master of a cluster by name."""
    findings: list[Finding] = []
    try:
        infos = await servers(redis)
    except ResponseError as error:
        unseen = f"INFO is refused, so version, durability, memory and eviction are not checked: {explained(error)}"
        return [Finding("warning", "server", unseen, "allow INFO, or check them yourself")]
    for name, info in infos:
        about = [_version(info), *_refusals(info), _durability(info), *_replicas(info), _memory(info)]
        findings += [replace(finding, subject=name + finding.subject) for finding in about]
    return findings


async def servers(redis: Redis) -> list[tuple[str, dict[str, Any]]]:
    """Return the reply to INFO of every server that takes writes, with its name in a cluster, else an empty name."""
    if isinstance(redis, RedisCluster):
        by_name = await redis.info(target_nodes=RedisCluster.PRIMARIES)
        return [(f"{name}: ", info) for name, info in sorted(by_name.items())]
    return [("", await redis.info())]


def _version(info: dict[str, Any]) -> Finding:
    version = str(info.get("valkey_version", info["redis_version"]))
    if tuple(int(part) for part in version.split(".")[:2]) >= MINIMUM_VERSION[:2]:
        return Finding("ok", "version", version)
    return Finding("problem", "version", version, "use Redis 6.2 or newer, or Valkey")


def _refusals(info: dict[str, Any]) -> list[Finding]:
    refusals = []
    if info.get("role") == "slave":
        refusals.append(Finding("problem", "writes", "this server is a replica", FAILURES["READONLY"].remedy))
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        refusals.append(Finding("problem", "writes", "the last snapshot failed", FAILURES["MISCONF"].remedy))
    if 0 < int(info.get("maxmemory", 0)) <= int(info.get("used_memory", 0)):
        refusals.append(Finding("problem", "writes", "the memory is full", FAILURES["OOM"].remedy))
    return refusals


def _durability(info: dict[str, Any]) -> Finding:
    if not info.get("aof_enabled"):
        text = "no append-only file: a crash of Redis loses everything since its last snapshot"
        return Finding("warning", "durability", text, "set appendonly yes")
    if info.get("aof_last_write_status") != "ok":
        text = "the append-only file cannot be written"
        return Finding("problem", "durability", text, FAILURES["MISCONF"].remedy)
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
    evicted = int(info.get("evicted_keys", 0))
    if evicted:
        return Finding(
            "problem",
            "memory",
            f"{used}, {policy}; {evicted:,} keys were evicted since the server started: estimates may miss "
            "interactions, or count some twice",
            f"set maxmemory-policy {SAFE}, restore what is lost (ragtide docs --search restore), and then reset this "
            "count: redis-cli CONFIG RESETSTAT",
        )
    if not danger:
        return Finding("ok", "memory", f"{used}, {policy}")
    advice = f"set maxmemory-policy {SAFE}: otherwise data disappear silently, and an interaction may count twice"
    if info.get("maxmemory"):
        return Finding("problem", "memory", f"{used}, eviction policy {policy} may drop {danger}", advice)
    text = f"{used}, eviction policy {policy} may drop {danger} as soon as maxmemory is set"
    return Finding("warning", "memory", text, advice)


async def known_ids_finding(redis: Redis, settings: Settings) -> Finding:
    """Return a finding on the memory of known ids, now and in the steady state; a warning if maxmemory is too small."""
    try:
        now, rate = await known_ids_size(redis, list(settings.layout.all()))
    except ResponseError as error:  # an ACL without MEMORY
        return Finding("ok", "known ids", f"their size cannot be read ({error})")
    steady = projected_bytes(rate, settings)
    windows = f"windows of {_days(settings.dedupe_window_s)} and {_days(settings.feedback_window_s)}"
    text = f"{_size(now)} now; {_size(steady)} in the steady state of {rate:,.1f} interactions a second, with {windows}"
    most = await _maxmemory(redis)
    if most is not None and most[1] and most[0] - now + max(now, steady) > most[1]:
        return Finding(
            "warning",
            "known ids",
            f"{text}; together with the other data this exceeds Redis's maxmemory of {_size(most[1])}",
            "raise maxmemory, or shorten feedback_window_s and dedupe_window_s",
        )
    return Finding("ok", "known ids", text)


async def _maxmemory(redis: Redis) -> tuple[float, float] | None:
    if isinstance(redis, RedisCluster):
        return None
    try:
        info = await redis.info("memory")
    except ResponseError:
        return None
    return float(info["used_memory"]), float(info.get("maxmemory", 0))


def _size(size: float) -> str:
    return f"{size / GIB:,.1f} GiB" if size >= GIB else f"{size / MIB:,.1f} MiB"


def _days(seconds: float) -> str:
    days = seconds / 86_400
    return "a day" if days == 1 else f"{days:g} days" if days > 1 else f"{seconds:g} s"


def projected_bytes(rate_per_s: float, settings: Settings) -> float:
    """Return the bytes of Redis's memory that known ids take in the steady state of a rate of interactions."""
    windows_s = settings.dedupe_window_s + settings.feedback_window_s
    return rate_per_s * windows_s * SPAN * STORED_BYTES


async def known_ids_size(redis: Redis, partitions: Sequence[Streams]) -> tuple[int, float]:
    """Return the bytes that known ids take now, estimated from one shard, and the present interactions a second.

    Raises:
        redis.RedisError: Redis failed, or its ACL forbids `MEMORY` to this user.
    """
    sizes = await run_scripts(redis, [shard_size(streams) for streams in partitions])
    return sum(shard.bytes for shard in sizes) * KNOWN_SHARDS, sum(shard.events_per_min for shard in sizes) / 60


class ShardSize(NamedTuple):
    """The size of one shard of the known ids of a partition, and the rate of the partition's metric events."""

    bytes: int
    events_per_min: int


def shard_size(streams: Streams) -> ScriptCall[ShardSize]:
    """Return the call that measures the first shard of a partition."""
    shard = [family(f"0:{bucket}") for family in (streams.owners, streams.events) for bucket in range(KNOWN_BUCKETS)]
    return ScriptCall(SIZE, (streams.metrics, *shard), (LOOKED_AT,), ShardSize._make)


async def history_findings(deployment: "Deployment") -> list[Finding]:
    """Return the number of series with the memory of full series; a warning if a partition has its most series."""
    history = deployment.settings.history
    if not history.enabled:
        return []
    try:
        series_keys = await deployment.series_by_partition()
    except DamagedFieldError:
        # The finding of its partition names the damage.
        return []
    counts = Counter({partition: len(keys) for partition, keys in series_keys.items()})
    total = counts.total()
    if not total:
        return []
    size = total * history.panes * RECORD_BYTES / MIB
    series = f"{total:,} series, about {size:,.1f} MiB in Redis when they are full"
    full = sorted(partition for partition, count in counts.items() if count >= history.series_max)
    if full:
        return [
            Finding(
                "warning",
                "history",
                f"{series}; {count_of(len(full), 'partition')} cannot have more than {history.series_max:,}, so new "
                "keys there have no history",
                "raise history.series_max, or choose fewer history.segments",
            )
        ]
    return [Finding("ok", "history", series)]
