"""Makes clients of Redis, blocking and asynchronous: of a single server, a cluster, or a master that sentinels name."""

import asyncio
import math
import random
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import iscoroutinefunction
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar, cast

from redis import Redis, RedisError, __version__
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.client import Pipeline
from redis.asyncio.cluster import ClusterNode as AsyncClusterNode
from redis.asyncio.cluster import ClusterPipeline
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.connection import Connection as AsyncConnection
from redis.asyncio.connection import parse_url as parse_async_url
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.asyncio.sentinel import SentinelManagedConnection as AsyncSentinelConnection
from redis.asyncio.sentinel import SentinelManagedSSLConnection as AsyncSentinelSSLConnection
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import Connection, ConnectionPool, parse_url
from redis.exceptions import (
    ConnectionError,  # noqa: A004 - Redis's own
    CrossSlotTransactionError,
    RedisClusterException,
    TimeoutError,  # noqa: A004 - the same
)
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedConnection, SentinelManagedSSLConnection

from .addresses import address_of
from .failures import explained, leaves_connection

CONNECT_TIMEOUT_S = 5.0
"""Seconds to wait for a connection."""

SOCKET_TIMEOUT_S = 10.0
"""Seconds to wait for a reply: longer than any blocking read, and short enough to notice a server that has ended."""

CONNECTIONS = 32
"""Most connections of one asynchronous client, by default."""

HEALTH_CHECK_S = 15
"""Seconds without traffic after which a connection is checked before it is used."""

RENEWED_S: Final = 30.0
"""Most seconds that a connection is used before it is opened anew.

The address may lead to another server by then. A reader learns that no other way: a demoted server answers reads.
"""

TIMEOUTS: Final[dict[str, Any]] = {
    "socket_connect_timeout": CONNECT_TIMEOUT_S,
    "socket_timeout": SOCKET_TIMEOUT_S,
    "health_check_interval": HEALTH_CHECK_S,
}

CLUSTER_TIMEOUTS: Final[dict[str, Any]] = {"socket_connect_timeout": 2.0, "socket_timeout": SOCKET_TIMEOUT_S}
"""Short, because a client tries a dead node once before it asks the others, and a failover waits for that."""

PATIENCE: Final = 6
"""Tries while a cluster is choosing another master, with pauses of up to a second between them."""

try:
    from redis.driver_info import DriverInfo
except ImportError:  # of redis-py before 7.2, which reads its version once
    DRIVER: dict[str, Any] = {}
else:
    DRIVER = {"driver_info": DriverInfo(lib_version=__version__)}
"""What a connection says of the library. redis-py would read its own version from its files for each connection,
and import modules for that, whose locks a forked child would inherit as held."""


def connect(url: str) -> Redis:
    """Return a blocking client for a URL. Replies are bytes. Only a client of a cluster connects at once.

    Raises:
        ValueError: the URL is no valid Redis URL.
        redis.RedisError: no node of a cluster answers.
    """
    address = address_of(url)
    if address.kind == "single":
        of_url = parse_url(url)  # type: ignore[no-untyped-call]  # so in redis-py
        options = {"retry": _once_more(Retry), **TIMEOUTS, **address.tls_options(), **_leaving_in(of_url, Connection)}
        return Redis.from_pool(ConnectionPool(**options))
    if address.kind == "cluster":
        nodes = [ClusterNode(*node) for node in address.nodes]  # type: ignore[no-untyped-call]  # untyped in redis-py
        options = {"retry": Retry(_backoff(), PATIENCE), **CLUSTER_TIMEOUTS, **address.options(), **DRIVER}
        with _failures_of_clusters():
            cluster = _BlockingCluster(startup_nodes=nodes, **options)
        return cast("Redis", cluster)  # it has the same commands
    sentinel: Any = Sentinel
    of_sentinels = {**address.sentinel_options(), **DRIVER}
    manager = sentinel(address.nodes, sentinel_kwargs=of_sentinels, **TIMEOUTS, **address.options())
    kind = SentinelManagedSSLConnection if address.uses_tls else SentinelManagedConnection
    options = {"connection_class": _leaving(kind), "retry": _once_more(Retry)}
    return cast("Redis", manager.master_for(address.master, **options))


def connect_once(url: str, timeout_s: float) -> Redis:
    """Return a client that waits so long for a connection and for a reply, and never tries again."""
    address = address_of(url)
    if address.kind != "single":
        return connect(url)
    return Redis.from_url(
        url,
        socket_connect_timeout=timeout_s,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        **address.tls_options(),
        **DRIVER,
    )


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
        of_url = _leaving_in(parse_async_url(url), AsyncConnection)
        options = {"retry": _once_more(AsyncRetry), **TIMEOUTS, **address.tls_options(), **of_url}
        waits = {"max_connections": connections, "timeout": SOCKET_TIMEOUT_S}
        return _Single.from_pool(BlockingConnectionPool(**waits | options))
    if address.kind == "cluster":
        nodes = [AsyncClusterNode(*node) for node in address.nodes]
        options = {"retry": AsyncRetry(_backoff(), PATIENCE), **CLUSTER_TIMEOUTS, **address.options()}
        # High, because a cluster's client refuses commands beyond this number instead of waiting.
        cluster = _Cluster(startup_nodes=nodes, max_connections=10_000, **options)
        return cast("AsyncRedis", cluster)  # it has the same commands
    sentinel: Any = AsyncSentinel
    manager = sentinel(address.nodes, sentinel_kwargs=address.sentinel_options(), **TIMEOUTS, **address.options())
    kind = AsyncSentinelSSLConnection if address.uses_tls else AsyncSentinelConnection
    options = {"connection_class": _leaving(kind), "retry": _once_more(AsyncRetry), "redis_class": _Single}
    return cast("AsyncRedis", manager.master_for(address.master, **options))


class ServerLeftError(ConnectionError):
    """The server cannot do its work now, and the connection to it was closed: the next command opens one anew."""


class _Aging:
    """A connection that knows when it is to be opened anew: when it is old, or older than one that left its server."""

    left_at = 0.0
    """Monotonic time at which a connection of this client left its server; each client has a class of its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options | DRIVER)
        self._connected_at = self._renew_at = math.inf
        connection: Any = self
        connection.register_connect_callback(self._connected)

    def _connected(self, connection: Any) -> None:
        del connection
        self._connected_at = monotonic()
        self._renew_at = self._connected_at + RENEWED_S * random.uniform(0.75, 1)  # noqa: S311 - not for secrets

    def _is_old(self) -> bool:
        if self._connected_at > self.left_at and self._renew_at > monotonic():
            return False
        self._connected_at = self._renew_at = math.inf
        return True

    def _left(self, error: RedisError) -> ServerLeftError:
        type(self).left_at = monotonic()
        return ServerLeftError(explained(error))


class _Leaving(_Aging):
    """A connection that is closed when its server is no longer the one to use.

    After a failover behind one address the sockets to the demoted server stay open, and nothing else would close them.
    """

    def read_response(self, *args: Any, **options: Any) -> Any:
        connection: Any = super()
        try:
            return connection.read_response(*args, **options)
        except RedisError as error:
            if not leaves_connection(error):
                raise
            connection.disconnect()
            raise self._left(error) from error

    def check_health(self) -> None:
        connection: Any = super()
        if self._is_old():
            connection.disconnect()
            connection.connect()
        connection.check_health()


try:
    from hiredis import pack_command
except ImportError:  # not in the core install
    pack_command = None  # type: ignore[assignment]


class _AsyncLeaving(_Aging):
    """Does as `_Leaving`, for asynchronous clients.

    It packs a script's call in C, as redis-py's blocking client does: it has an argument for each entry of a batch.
    """

    def pack_command(self, *args: Any) -> list[bytes]:
        if args[0] == "EVALSHA" and pack_command is not None:
            return [pack_command(args)]
        connection: Any = super()
        packed: list[bytes] = connection.pack_command(*args)
        return packed

    async def read_response(self, *args: Any, **options: Any) -> Any:
        connection: Any = super()
        try:
            return await connection.read_response(*args, **options)
        except RedisError as error:
            if not leaves_connection(error):
                raise
            await connection.disconnect(nowait=True)
            raise self._left(error) from error

    async def check_health(self) -> None:
        connection: Any = super()
        if self._is_old():
            await connection.disconnect(nowait=True)
            await connection.connect()
        await connection.check_health()


def _leaving(connection: Any) -> type:
    mixin = _AsyncLeaving if iscoroutinefunction(connection.read_response) else _Leaving
    return type(f"Leaving{connection.__name__}", (mixin, connection), {"left_at": 0.0})


def _leaving_in(of_url: Mapping[str, Any], usual: type) -> dict[str, Any]:
    # The pool of a URL would take its own class for TLS and for a socket of Unix.
    return {**of_url, "connection_class": _leaving(of_url.get("connection_class", usual))}


R = TypeVar("R", Retry, AsyncRetry)


def _once_more(retry: type[R]) -> R:
    return retry(NoBackoff(), 1, supported_errors=(ServerLeftError,))


class _Single(AsyncRedis):
    """A client of a single server that reports every failed connection as a RedisError.

    If a connection is closed while a task sends over it, redis-py raises an AttributeError. Since Python 3.12 that
    happens also when asyncio closes the connection because Redis has ended.
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


class _BlockingCluster(RedisCluster):
    def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        with _failures_of_clusters():
            return super().execute_command(*args, **kwargs)  # type: ignore[no-untyped-call]  # so in redis-py


class _Cluster(AsyncRedisCluster):
    """A client of a cluster that reports every failed connection as a RedisError, and then looks up the nodes again.

    If a task finds that the nodes have changed, redis-py closes every connection. Commands that other tasks are sending
    then fail with an AttributeError. Before redis-py sends XREAD or XREADGROUP, it asks a node which of the arguments
    are keys. If that node dies, redis-py asks it for ever: only a failed command makes redis-py look up the nodes.
    """

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with _failures_of_connections(), _failures_of_clusters():
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
            with _failures_of_connections(), _failures_of_clusters():
                return await super().execute(raise_on_error, allow_redirections)
        except (ConnectionError, TimeoutError):
            await self.cluster_client.aclose()
            raise


@contextmanager
def _failures_of_connections() -> Iterator[None]:
    try:
        yield
    except (AttributeError, TypeError) as error:
        raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename).parent
        if isinstance(error, TypeError) and raised_in != Path(asyncio.__file__).parent:
            raise
        raise ConnectionError(f"the connection was closed while it was used ({error})") from error


@contextmanager
def _failures_of_clusters() -> Iterator[None]:
    """Report a cluster that cannot be used now as a RedisError, which redis-py's exception for it is not."""
    try:
        yield
    except CrossSlotTransactionError:
        raise
    except RedisClusterException as error:
        raise ConnectionError(str(error)) from error


def _backoff() -> ExponentialWithJitterBackoff:
    return ExponentialWithJitterBackoff(cap=1.0, base=0.1)
