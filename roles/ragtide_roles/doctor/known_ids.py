"""The finding about the memory of known interaction ids, now and in the steady state."""

from redis import ResponseError
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from ragtide_runtime.settings.model import Settings

from .finding import Finding
from .known_ids_size import known_ids_size, projected_bytes

MIB = 2**20
GIB = 2**30


async def known_ids_finding(redis: Redis, settings: Settings) -> Finding:
    """Return a finding on the memory of known ids, now and in the steady state; a warning if maxmemory is too small."""
    try:
        now, rate = await known_ids_size(redis, list(settings.layout.all()))
    except ResponseError as error:  # an ACL without MEMORY
        return Finding("ok", "known ids", f"their size cannot be read ({error})")
    steady = projected_bytes(rate, settings)
    windows = f"windows of {_days(settings.dedupe_window_s)} and {_days(settings.feedback_window_s)}"
    found = (
        f"{_size(now)} now; {_size(steady)} in the steady state of {rate:,.1f} interactions a second, with {windows}"
    )
    most = await _maxmemory(redis)
    if most is not None and most[1] and most[0] - now + max(now, steady) > most[1]:
        return Finding(
            "warning",
            "known ids",
            f"{found}; together with the other data this exceeds Redis's maxmemory of {_size(most[1])}",
            "raise maxmemory, or shorten feedback_window_s and dedupe_window_s",
        )
    return Finding("ok", "known ids", found)


async def _maxmemory(redis: Redis) -> tuple[float, float] | None:
    """Return used memory and maxmemory of a server; None without INFO, and for a cluster, whose nodes share both."""
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
