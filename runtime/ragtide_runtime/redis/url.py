"""Finds the Redis that this process uses: the one that a URL names, or an embedded server that ragtide starts."""

import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import unquote

from redis.exceptions import RedisError

from ..errors import RedisUnavailable
from ..processes.forks import NOT_FORKING
from .addresses import ENCODED, AddressError, address_of
from .client import connect_once
from .failures import code_of, explained, is_misconfigured

if TYPE_CHECKING:
    from .server.embedded import EmbeddedRedis

PING_TIMEOUT_S = 3.0
"""Seconds that a Redis given by URL has to accept a connection, and as many to answer."""

_USER_INFO = re.compile(r"(?<=://)[^/].*@|^(?![\w+]+://).*@", re.DOTALL)
_SHOWN: Final = re.compile(
    r"(db|protocol|client_name|encoding|max_connections|health_check_interval|retry_on_timeout|decode_responses"
    r"|virtual_host|timeout|(socket|ssl)_(?!.*pass)[a-z_]{1,40})=[^#]*"
)
"""A parameter without a secret; any other part of a query may be the rest of a password."""

_SECRET: Final = re.compile(r"(sentinel_|ssl_)?(password|username)", re.IGNORECASE)


def redact(url: str) -> str:
    """Return the URL without user name, password and secret parameters, fit for a log.

    Everything up to the last `@` is hidden: a password may hold any character, and some users write the password in the
    place of the user name.

    >>> redact("redis://default:s3cret@redis.internal:6379/0?ssl_password=x&db=1")
    'redis://***@redis.internal:6379/0?ssl_password=***&db=1'
    """
    place, mark, query = _USER_INFO.sub("***@", url).partition("?")
    return place.partition("#")[0] + mark + "&".join(_parameter(part) for part in query.split("&"))


def _parameter(text: str) -> str:
    if _SHOWN.fullmatch(text) or not text:
        return text
    name, equals, _ = text.partition("=")
    return f"{name}=***" if equals and _SECRET.fullmatch(name) else "***"


@dataclass(frozen=True)
class RedisHandle:
    """The Redis in use, until `close` or the end of a `with` block."""

    url: str
    """For clients; it may hold a password: log `description` instead."""
    description: str
    """Kind and address of the Redis, without secrets, for people and logs."""
    embedded: "EmbeddedRedis | None" = None
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


def resolve_redis(settings_url: str | None, data_dir: Path, *, convert: bool = False, ask: bool = True) -> RedisHandle:
    """Return the Redis that the settings' URL names or, without a URL, the server of the data directory.

    Args:
        settings_url: URL of a Redis; None for an embedded server.
        data_dir: where an embedded server keeps its data.
        convert: whether a newer server may convert the data of an older one, as roles and producers may.
        ask: whether the Redis of a URL must answer now; without it only the URL is checked.

    Raises:
        RedisUnavailable: the URL is malformed, nothing answers there, or no server can be started.
    """
    if settings_url:
        check_url(settings_url)
        if ask:
            check_answers(settings_url)
        return RedisHandle(url=settings_url, description=f"{redact(settings_url)} (RAGTIDE_REDIS_URL)")
    with NOT_FORKING:
        from .server.embedded import EmbeddedRedis  # noqa: PLC0415 - with a URL no process starts a server

    embedded = EmbeddedRedis.open(data_dir, convert=convert)
    description = f"embedded {embedded.binary} in {embedded.data_dir}: redis-cli -s {embedded.socket}"
    return RedisHandle(url=embedded.url, description=description, embedded=embedded)


REFUSES_WRITES: Final = frozenset({"MISCONF", "NOREPLICAS", "OOM", "READONLY"})
"""Codes of errors with which a server answers PING or a write, although it answers reads."""


def check_url(url: str) -> None:
    """Check that a text is the URL of a Redis.

    Raises:
        RedisUnavailable: it is not.
    """
    try:
        address_of(url)
    except (ValueError, TypeError) as error:  # not chained, because redis-py's text can quote the password
        why = f"{error}; " if isinstance(error, AddressError) else ""
        raise RedisUnavailable(
            f"RAGTIDE_REDIS_URL is {redact(url)!r}, which is not a Redis URL: set it to redis://host:6379/0, "
            "rediss://host:6379/0, unix:///path/to/redis.sock, redis+cluster://host:6379,host:6379 or "
            f"redis+sentinel://host:26379,host:26379/master ({why}{ENCODED})"
        ) from None


def check_answers(url: str) -> None:
    """Check that the Redis of a URL answers now; one that refuses only writes does.

    Raises:
        RedisUnavailable: it does not.
    """
    try:
        with connect_once(url, PING_TIMEOUT_S) as client:
            client.ping()
    # TypeError: an option that redis-py does not know.
    except (RedisError, OSError, TypeError, ValueError) as error:
        code = code_of(error)
        if code in REFUSES_WRITES:
            return
        # redis-py names a parameter that it does not know, which may be the rest of a password.
        unknown = isinstance(error, TypeError)
        reason = "a parameter in it is unknown" if unknown else without_secrets(explained(error), url)
        message = f"no usable Redis at {redact(url)} ({reason})"
        if not code:
            message = (
                f"no usable Redis at {redact(url)} ({reason}): start it, correct RAGTIDE_REDIS_URL, or unset that to "
                "have ragtide start a Redis of its own"
            )
        raise RedisUnavailable(message, may_recover=not is_misconfigured(error)) from None


def without_secrets(text: str, url: str) -> str:
    """Return a text in which the user and the password of a URL are hidden."""
    rest = url.partition("://")[2].partition("?")[0]
    user_info = "" if rest.startswith("/") else rest.rpartition("@")[0]
    for secret in reversed(user_info.split(":", 1)):
        if len(secret) >= SHORTEST:
            text = text.replace(unquote(secret), "***").replace(secret, "***")
    return text


SHORTEST: Final = 3
"""Characters of the shortest user or password that is hidden in a text; a shorter one is part of any word."""
