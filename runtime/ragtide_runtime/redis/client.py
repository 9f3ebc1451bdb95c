"""Makes clients of Redis, blocking and asynchronous: of a single server, a cluster, or a master that sentinels name."""

import asyncio
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from redis import Redis
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.client import Pipeline
from redis.asyncio.cluster import ClusterNode as AsyncClusterNode
from redis.asyncio.cluster import ClusterPipeline
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import ExponentialWithJitterBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004 - Redis's own
from redis.retry import Retry
from redis.sentinel import Sentinel

from .addresses import address_of

CONNECT_TIMEOUT_S = 5.0
"""Seconds to wait for a connection."""

SOCKET_TIMEOUT_S = 10.0
"""Seconds to wait for a reply: longer than any blocking read, and short enough to notice a server that is gone."""

CONNECTIONS = 32
"""Most connections of one asynchronous client, by default."""

HEALTH_CHECK_S = 15
"""Seconds without traffic after which a connection is checked before it is used."""

TIMEOUTS: Final[dict[str, Any]] = {
    "socket_connect_timeout": CONNECT_TIMEOUT_S,
    "socket_timeout": SOCKET_TIMEOUT_S,
    "health_check_interval": HEALTH_CHECK_S,
}

CLUSTER_TIMEOUTS: Final[dict[str, Any]] = {"socket_connect_timeout": 2.0, "socket_timeout": SOCKET_TIMEOUT_S}
"""Short, because a client tries a dead node once before it asks the others, and a failover waits for that."""

PATIENCE: Final = 6
"""Tries while a cluster is choosing another master, with pauses of up to a second between them."""


def connect(url: str) -> Redis:
    """Return a blocking client for a URL. Replies are bytes. Only a client of a cluster connects at once.

    Raises:
        ValueError: the URL is no valid Redis URL.
        redis.RedisError: no node of a cluster answers.
    """
    address = address_of(url)
    if address.kind == "single":
        return Redis.from_url(url, **TIMEOUTS, **address.tls_options())
    if address.kind == "cluster":
        nodes = [ClusterNode(*node) for node in address.nodes]  # type: ignore[no-untyped-call]  # untyped in redis-py
        options = {"retry": Retry(_backoff(), PATIENCE), **CLUSTER_TIMEOUTS, **address.options()}
        cluster = RedisCluster(startup_nodes=nodes, **options)
        return cast("Redis", cluster)  # it has the same commands
    sentinel: Any = Sentinel
    manager = sentinel(address.nodes, sentinel_kwargs=address.sentinel_options(), **TIMEOUTS, **address.options())
    return cast("Redis", manager.master_for(address.master))


def connect_async(url: str, *, connections: int = CONNECTIONS) -> AsyncRedis:
    """Return an asynchronous client for a URL. Replies are bytes. It connects at its first command.

    Commands beyond the number of connections wait for a free one; redis-py's own pool would refuse them.

    Args:
        url: of one server, a cluster or sentinels (`address_of`).
        connections: most connections to one server.

    Raises:
        ValueError: the URL is no valid Redis URL.
    """
    address = address_of(url)
    if address.kind == "single":
        pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
            url, max_connections=connections, timeout=SOCKET_TIMEOUT_S, **TIMEOUTS, **address.tls_options()
        )
        return _Single.from_pool(pool)
    if address.kind == "cluster":
        nodes = [AsyncClusterNode(*node) for node in address.nodes]
        options = {"retry": AsyncRetry(_backoff(), PATIENCE), **CLUSTER_TIMEOUTS, **address.options()}
        # High, because a cluster's client refuses commands beyond this number instead of waiting.
        cluster = _Cluster(startup_nodes=nodes, max_connections=10_000, **options)
        return cast("AsyncRedis", cluster)  # it has the same commands
    sentinel: Any = AsyncSentinel
    manager = sentinel(address.nodes, sentinel_kwargs=address.sentinel_options(), **TIMEOUTS, **address.options())
    return cast("AsyncRedis", manager.master_for(address.master, redis_class=_Single))


class _Single(AsyncRedis):
    """A client of a single server that reports every failed connection as a RedisError.

    If a connection is closed while a task sends over it, redis-py raises an AttributeError. Since Python 3.12 that
    happens also when asyncio closes the connection because Redis is gone.
    """

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        with _failures_of_connections():
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]  # so in redis-py

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return _SinglePipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _SinglePipeline(Pipeline):
    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        with _failures_of_connections():
            return await super().execute(raise_on_error)


class _Cluster(AsyncRedisCluster):
    """A client of a cluster that reports every failed connection as a RedisError, and then looks up the nodes again.

    If a task finds that the nodes have changed, redis-py closes every connection. Commands that other tasks are sending
    then fail with an AttributeError. Before redis-py sends XREAD or XREADGROUP, it asks a node which of the arguments
    are keys. If that node dies, redis-py asks it for ever: only a failed command makes redis-py look up the nodes.
    """

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with _failures_of_connections():
                return await super().execute_command(*args, **kwargs)
        except (ConnectionError, TimeoutError):
            await self.aclose()  # the next command opens it and looks up the nodes
            raise

    def pipeline(self, transaction: bool | None = None, shard_hint: bool | None = None) -> ClusterPipeline:
        if shard_hint:
            raise ValueError("shard_hint is not for clusters")
        return _ClusterPipeline(self, transaction)  # type: ignore[abstract]  # abstract in redis-py itself


class _ClusterPipeline(ClusterPipeline):
    async def execute(self, raise_on_error: bool = True, allow_redirections: bool = True) -> list[Any]:
        try:
            with _failures_of_connections():
                return await super().execute(raise_on_error, allow_redirections)
        except (ConnectionError, TimeoutError):
            await self.cluster_client.aclose()
            raise


@contextmanager
def _failures_of_connections() -> Iterator[None]:
    try:
        yield
    except (AttributeError, TypeError) as error:
        if isinstance(error, TypeError) and not _raised_by_asyncio(error):
            raise
        raise ConnectionError(f"the connection was closed while it was used ({error})") from error


def _raised_by_asyncio(error: TypeError) -> bool:
    """Return whether a transport of asyncio raised the error; since Python 3.13 a closed transport does."""
    return Path(traceback.extract_tb(error.__traceback__)[-1].filename).parent == Path(asyncio.__file__).parent


def _backoff() -> ExponentialWithJitterBackoff:
    return ExponentialWithJitterBackoff(cap=1.0, base=0.1)
