"""Connections to Redis: one way to make a client, asynchronous or not."""

from redis import Redis
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Redis as AsyncRedis

CONNECT_TIMEOUT_S = 5.0
"""Seconds to wait for a connection."""

SOCKET_TIMEOUT_S = 30.0
"""Seconds to wait for a reply; longer than any blocking read, so that a dead connection is noticed."""

CONNECTIONS = 32
"""Connections of one asynchronous client at most."""

HEALTH_CHECK_S = 15
"""Seconds of silence after which a connection is checked before it is used."""


def connect(url: str) -> Redis:
    """Return a client for a URL; nothing is sent yet. Replies are bytes."""
    return Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=SOCKET_TIMEOUT_S,
        health_check_interval=HEALTH_CHECK_S,
    )


def connect_async(url: str) -> AsyncRedis:
    """Return an asynchronous client for a URL; nothing is sent yet. Replies are bytes.

    More commands at once than it has connections wait for one; redis-py's own pool would refuse them.
    """
    pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
        url,
        max_connections=CONNECTIONS,
        timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=SOCKET_TIMEOUT_S,
        health_check_interval=HEALTH_CHECK_S,
    )
    return AsyncRedis.from_pool(pool)
