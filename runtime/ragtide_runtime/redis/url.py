"""Finds the Redis that this process uses: the one that a URL names, or an embedded server that ragtide starts."""

import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import unquote

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException, RedisError
from redis.retry import Retry

from ..errors import RedisUnavailable
from .addresses import Address, address_of
from .client import connect
from .server.embedded import EmbeddedRedis

PING_TIMEOUT_S = 3.0
"""Seconds that a Redis given by URL has to accept a connection, and as many to answer."""

_USER_INFO = re.compile(r"(?<=://)[^/].*@|^(?!\w+://).*@", re.DOTALL)
_SECRET_PARAMETER = re.compile(r"([?&][^=&]*(?:pass|secret|token|user|credential)[^=&]*=)[^&]*", re.IGNORECASE)


def redact(url: str) -> str:
    """Return the URL without user name, password and secret parameters, fit for a log.

    Everything up to the last `@` is hidden: a password may hold any character, and some users write the password in the
    place of the user name.

    >>> redact("redis://default:s3cret@redis.internal:6379/0?ssl_password=x&db=1")
    'redis://***@redis.internal:6379/0?ssl_password=***&db=1'
    """
    return _SECRET_PARAMETER.sub(r"\1***", _USER_INFO.sub("***@", url))


@dataclass(frozen=True)
class RedisHandle:
    """The Redis in use, until `close` or the end of a `with` block."""

    url: str
    """For clients; it may hold a password: log `description` instead."""
    description: str
    """Kind and address of the Redis, without secrets, for people and logs."""
    embedded: EmbeddedRedis | None = None
    """The server started here, if there is one."""

    def close(self) -> None:
        """Stop using the Redis; one started here ends with its last user. Closing twice does nothing."""
        if self.embedded is not None:
            self.embedded.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def resolve_redis(settings_url: str | None, data_dir: Path, *, convert: bool = False) -> RedisHandle:
    """Return the Redis that the settings' URL names or, without a URL, the server of the data directory.

    Args:
        settings_url: URL of a Redis; None for an embedded server.
        data_dir: where an embedded server keeps its data.
        convert: whether a newer server may convert the data of an older one, as roles and producers may.

    Raises:
        RedisUnavailable: the URL is malformed, nothing answers there, or no server can be started.
    """
    if settings_url:
        _check_answers(settings_url)
        return RedisHandle(url=settings_url, description=f"{redact(settings_url)} (RAGTIDE_REDIS_URL)")
    embedded = EmbeddedRedis.open(data_dir, convert=convert)
    description = f"embedded {embedded.binary} in {embedded.data_dir}: redis-cli -s {embedded.socket}"
    return RedisHandle(url=embedded.url, description=description, embedded=embedded)


NEEDS_PASSWORD: Final = ("HELLO must be called with the client already authenticated", "Authentication required")
"""Words of a server that got no password."""


def _check_answers(url: str) -> None:
    malformed = RedisUnavailable(
        f"RAGTIDE_REDIS_URL is {redact(url)!r}, which is not a Redis URL: set it to redis://host:6379/0, "
        "rediss://host:6379/0, unix:///path/to/redis.sock, redis+cluster://host:6379,host:6379 or "
        "redis+sentinel://host:26379,host:26379/master (characters such as / # ? @ in a password are percent-encoded)"
    )
    try:
        address = address_of(url)
    except (ValueError, TypeError):  # not chained, because the text can quote the password
        raise malformed from None
    try:
        with _impatient(url, address) as client:
            client.ping()
    # TypeError: an option that redis-py does not know.
    except (RedisError, RedisClusterException, OSError, TypeError) as error:
        reason = str(error)
        if any(words in reason for words in NEEDS_PASSWORD):
            raise RedisUnavailable(
                f"the Redis at {redact(url)} needs a password: set RAGTIDE_REDIS_PASSWORD, or write it into the URL"
            ) from None
        user_info, at, _ = url.partition("://")[2].partition("?")[0].rpartition("@")
        for secret in filter(None, reversed(user_info.split(":", 1)) if at else ()):
            reason = reason.replace(unquote(secret), "***").replace(secret, "***")
        raise RedisUnavailable(
            f"no usable Redis at {redact(url)} ({reason or type(error).__name__}): start it, "
            "correct RAGTIDE_REDIS_URL, or unset that to have ragtide start a Redis of its own"
        ) from None


def _impatient(url: str, address: Address) -> Redis:
    if address.kind != "single":
        return connect(url)
    return Redis.from_url(
        url,
        socket_connect_timeout=PING_TIMEOUT_S,
        socket_timeout=PING_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        **address.tls_options(),
    )
