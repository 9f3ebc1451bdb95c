"""Classifies failures of Redis: what each means for people, and whether waiting helps.

Redis 6.2 wraps the error of a command inside a script (`Error running script ... -READONLY You can't write ...`), Redis
7 and Valkey raise it by itself. Both have the same code here.
"""

import socket
import ssl
from typing import Final, NamedTuple

from redis import AuthenticationError, RedisError
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from .addresses import ENCODED

WORDS_LOOKED_AT: Final = 100
"""Words of an error in which its code is looked for."""
LETTERS_LOOKED_AT: Final = 20 * WORDS_LOOKED_AT


class RefusedState(NamedTuple):
    """What an error code of Redis means."""

    remedy: str
    """The cause, and what to do."""
    leaves: bool = False
    """Whether the connection is closed, because the address may lead to another server by now."""
    misconfigured: bool = False
    """Whether waiting does not help a process that starts."""


FAILURES: Final = {
    "READONLY": RefusedState(
        "this server is a replica, so the connection is opened anew until the address leads to a primary", leaves=True
    ),
    "UNBLOCKED": RefusedState("this server became a replica, so the connection is opened anew", leaves=True),
    "MASTERDOWN": RefusedState(
        "this server is a replica that lost its primary: make the address lead to the primary", leaves=True
    ),
    "LOADING": RefusedState("Redis still loads its data: wait until it has loaded them", leaves=True),
    "MISCONF": RefusedState(
        "Redis cannot write its snapshot or append-only file, so it refuses writes: free space on the disk of its "
        "directory (CONFIG GET dir) and look at its log; more maxmemory does not help",
        leaves=True,
    ),
    "NOREPLICAS": RefusedState(
        "fewer replicas are connected than min-replicas-to-write requires: start the replicas, or lower it", leaves=True
    ),
    "BUSY": RefusedState("a script runs for long: wait for its end, or end it with SCRIPT KILL", leaves=True),
    "CLUSTERDOWN": RefusedState("the cluster has no master for these keys: wait for its failover, or start the node"),
    "TRYAGAIN": RefusedState("the cluster moves these keys to another node: wait"),
    "OOM": RefusedState(
        "Redis has reached maxmemory: raise maxmemory, or start roles that are missing so that it trims"
    ),
    "NOAUTH": RefusedState(
        "this Redis needs a password: set RAGTIDE_REDIS_PASSWORD, or write it into the URL",
        leaves=True,
        misconfigured=True,
    ),
    "WRONGPASS": RefusedState(
        f"the user or the password is wrong: correct RAGTIDE_REDIS_PASSWORD or the URL; {ENCODED}", misconfigured=True
    ),
    "NOPERM": RefusedState(
        "the ACL forbids this command or key: grant what `ragtide docs redis` lists", misconfigured=True
    ),
    "UNKNOWN": RefusedState(
        "this Redis is too old or has this command disabled: use one with all commands that `ragtide docs redis` lists",
        misconfigured=True,
    ),
    "MOVED": RefusedState(
        "this server is a node of a cluster: begin the URL with redis+cluster://", misconfigured=True
    ),
}
"""The errors that ragtide waits for or names, by their code."""

_OF_CLASS: Final[dict[type[Exception], str]] = {
    ReadOnlyError: "READONLY",
    MasterDownError: "MASTERDOWN",
    ClusterDownError: "CLUSTERDOWN",
    BusyLoadingError: "LOADING",
    OutOfMemoryError: "OOM",
    NoPermissionError: "NOPERM",
    TryAgainError: "TRYAGAIN",
    AskError: "MOVED",
}
"""The codes that redis-py removes from its messages."""

_NEEDS_PASSWORD: Final = ("HELLO must be called with the client already authenticated", "Authentication required")
_FORBIDDEN: Final = ("ACL failure in script", "has no permissions to", "executing the script can't run this command")
"""Words of an ACL that forbids a command inside a script."""
_UNKNOWN: Final = ("unknown command", "Unknown Redis command", "Unknown command called from script")
"""Words about a command that a provider has taken away; they have no code."""
_NO_SUCH_NAME: Final = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)
)
_CUT: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""Errors of TLS that say only that the server closed the connection."""


def code_of(error: BaseException) -> str:
    """Return the code of an error in `FAILURES`; empty for any other error.

    >>> code_of(ResponseError("Error running script (call to f_0): @user_script:5: -READONLY You can't write"))
    'READONLY'
    """
    if isinstance(error, AuthenticationError):
        return "NOAUTH" if any(words in str(error) for words in _NEEDS_PASSWORD) else "WRONGPASS"
    code = next((code for kind, code in _OF_CLASS.items() if isinstance(error, kind)), "")
    if code or not isinstance(error, RedisError):
        return code
    words = str(error)[:LETTERS_LOOKED_AT].split(maxsplit=WORDS_LOOKED_AT)
    if words and words[0] in FAILURES:
        return words[0]
    code = next((word[1:] for word in words if word[0] == "-" and word[1:] in FAILURES), "")
    if code or any(words in str(error) for words in _FORBIDDEN):
        return code or "NOPERM"
    return "UNKNOWN" if any(words in str(error)[:LETTERS_LOOKED_AT] for words in _UNKNOWN) else ""


def leaves_connection(error: BaseException) -> bool:
    """Return whether a connection is to be opened anew after an error."""
    code = code_of(error)
    return bool(code) and FAILURES[code].leaves


def explained(error: BaseException) -> str:
    """Return the message of an error with its code, and what to do if that is known."""
    text, code = str(error) or type(error).__name__, code_of(error)
    if not code:
        return text
    remedy = FAILURES[code].remedy
    if remedy in text:
        return text
    return f"{text if code in text or code == 'UNKNOWN' else f'{code} {text}'}".rstrip(".") + f": {remedy}"


def is_misconfigured(error: BaseException) -> bool:
    """Return whether the settings are the cause, so that a process that starts does not wait.

    A wrong password, a forbidden command, a database or host that does not exist, and a certificate that does not fit
    are of this kind. A refused connection, a server that loads its data, and a name server that is away are not.
    """
    if isinstance(error, TypeError | ValueError):  # options that redis-py does not know
        return True
    code = code_of(error)
    if code:
        return FAILURES[code].misconfigured
    if isinstance(error, ResponseError):
        return "DB index" in str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror) and cause.errno in _NO_SUCH_NAME:
            return True
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, _CUT):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def is_missing(error: ResponseError) -> bool:
    """Return whether a stream or a consumer group does not exist; any other error says nothing about it."""
    text = str(error)
    return any(words in text for words in ("no such key", "NOGROUP", "key to exist"))
