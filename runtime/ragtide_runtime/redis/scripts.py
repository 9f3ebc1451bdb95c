"""Runs Lua scripts in Redis, alone or many in one round trip. Each script has a file and one typed function.

A file in `scripts/` begins with a header: its purpose, its KEYS and ARGV, its reply. A line `-- uses: known_ids` puts
the functions of `scripts/shared/known_ids.lua` before it. Names such as `CHECKPOINT_STEPS` come from `keys.py`.
"""

import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from redis import Redis, RedisError
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - Redis's own
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisClusterException,
    TimeoutError,  # noqa: A004 - the same
    TryAgainError,
)

from ..processes.waiting import Backoff
from .client import PATIENCE
from .keys import (
    AWAITING,
    AWAITING_TURN,
    DATA_FIELD,
    KNOWN_BUCKETS,
    KNOWN_SHARDS,
    RESCUER,
    SESSIONS_TOTAL,
    SPECIMEN_TOTAL,
    TRACEPARENT_FIELD,
    CheckpointField,
    DeliveriesField,
    OutboxField,
    OutcomeField,
    ReplayField,
    SentinelField,
    SessionField,
    TraceField,
)

log = logging.getLogger("ragtide.redis")

MOVING: Final = (
    AskError,
    ClusterDownError,
    ConnectionError,
    MovedError,
    ReadOnlyError,
    TimeoutError,
    TryAgainError,
)
"""Errors of a cluster that chooses another master or moves a slot: the command is sent again."""

FOLDER: Final = Path(__file__).parent / "scripts"

NAMES: Final = {
    "DATA_FIELD": f"'{DATA_FIELD.decode()}'",
    "TRACEPARENT_FIELD": f"'{TRACEPARENT_FIELD.decode()}'",
    "AWAITING": f"'{AWAITING}'",
    "AWAITING_TURN": f"'{AWAITING_TURN}'",
    "RESCUER": f"'{RESCUER}'",
    "SPECIMEN_TOTAL": f"'{SPECIMEN_TOTAL}'",
    "SESSIONS_TOTAL": f"'{SESSIONS_TOTAL}'",
    "KNOWN_BUCKETS": str(KNOWN_BUCKETS),
    "KNOWN_KEYS": str(1 + KNOWN_BUCKETS),
    "KNOWN_SHARDS": str(KNOWN_SHARDS),
    **{f"CHECKPOINT_{field.name}": f"'{field}'" for field in CheckpointField},
    **{f"DELIVERIES_{field.name}": f"'{field}'" for field in DeliveriesField},
    **{f"REPLAY_{field.name}": f"'{field}'" for field in ReplayField},
    **{f"OUTBOX_{field.name}": f"'{field}'" for field in OutboxField},
    **{f"SENTINEL_{field.name}": f"'{field}'" for field in SentinelField},
    **{f"SESSION_{field.name}": f"'{field}'" for field in SessionField},
    **{f"TRACE_{field.name}": f"'{field}'" for field in TraceField},
    **{f"OUTCOME_{field.name}": f"'{field}'" for field in OutcomeField},
}
"""Names from `keys.py` that a script may use."""

Argument = str | bytes | int | float

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Lua:
    """One script.

    Args:
        name: of its file, without `.lua`.
    """

    text: str
    """The script with everything that it uses."""
    sha: str
    """The name by which Redis knows the script."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> str:
        # At the first use. A cached_property has a lock on Python 3.11, which a forked child may inherit as held.
        if name == "text":
            self.text = self._assembled()
            return self.text
        if name == "sha":
            self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()
            return self.sha
        raise AttributeError(name)

    def _assembled(self) -> str:
        own = (FOLDER / f"{self.name}.lua").read_text(encoding="utf-8")
        text = "".join(_shared(name) for name in _used_files(own)) + own
        used = [name for name in NAMES if re.search(rf"\b{name}\b", text)]
        return "".join(f"local {name} = {NAMES[name]}\n" for name in used) + text


@cache
def _shared(name: str) -> str:
    return (FOLDER / "shared" / f"{name}.lua").read_text(encoding="utf-8")


def _used_files(text: str) -> dict[str, None]:
    files: dict[str, None] = {}
    for names in re.findall(r"^-- uses: (.*)$", text, re.MULTILINE):
        for name in names.split(", "):
            files |= _used_files(_shared(name)) | {name: None}
    return files


class ScriptCall(NamedTuple, Generic[R_co]):
    """A call of a script: its keys, all of one partition, its arguments, and the conversion of its reply."""

    lua: Lua
    keys: Sequence[str]
    args: Sequence[Argument]
    read: Callable[[Any], R_co]
    """Converts the reply to its type."""

    def command(self) -> tuple[Argument, ...]:
        """Return the command that runs the script, if Redis has it."""
        return ("EVALSHA", self.lua.sha, len(self.keys), *self.keys, *self.args)


def text_or_none(reply: bytes | None) -> str | None:
    """Return a reply as text; None if the reply is nil."""
    return None if reply is None else reply.decode()


def number_or_none(reply: Any) -> int | None:
    """Return a reply as a whole number; None if the reply is nil."""
    return None if reply is None else int(reply)


async def run_script(redis: AsyncRedis, call: ScriptCall[R]) -> R:
    """Run a script and return its reply.

    Raises:
        redis.RedisError: the script may or may not have been run.
    """
    while True:
        try:
            reply: Any = await redis.execute_command(*call.command())  # type: ignore[no-untyped-call]  # so in redis-py
            return call.read(reply)
        except NoScriptError:
            await redis.script_load(call.lua.text)


async def run_scripts(redis: AsyncRedis, calls: Sequence[ScriptCall[R]]) -> list[R]:
    """Run scripts in one round trip and return the reply of each, in order.

    Every script must be safe to repeat: on a cluster some may run twice. A script that Redis does not have yet runs
    after the others.

    Raises:
        redis.RedisError: some or all scripts may not have been run.
    """
    replies: list[Any] = [NoScriptError()] * len(calls)
    while missing := [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]:
        async with redis.pipeline(transaction=False) as pipe:
            for at in missing:
                pipe.execute_command(*calls[at].command())
            try:
                # A cluster's pipeline repeats commands after some errors, but only if it may raise errors.
                outcomes = await pipe.execute(raise_on_error=isinstance(redis, AsyncRedisCluster))
            except NoScriptError as error:
                outcomes = [error] * len(missing)
        _put(replies, missing, outcomes)
        for text in _texts(calls, replies):
            await redis.script_load(text)
    return [call.read(reply) for call, reply in zip(calls, replies, strict=True)]


def run_scripts_blocking(redis: Redis, calls: Sequence[ScriptCall[R]]) -> list[R]:
    """Do as `run_scripts`, with a blocking client."""
    replies = _run_on_cluster(redis, calls) if isinstance(redis, RedisCluster) else _run_on_server(redis, calls)
    return [call.read(reply) for call, reply in zip(calls, replies, strict=True)]


def _run_on_cluster(redis: Any, calls: Sequence[ScriptCall[R]]) -> list[Any]:
    # Node by node, because redis-py asks the cluster's first node for the keys of every script, even a dead node.
    tries, backoff = 0, Backoff(0.2, 1.0, random_share=0.0)
    while True:
        try:
            return _run_on_nodes(redis, calls)
        except (*MOVING, RedisClusterException) as error:
            tries += 1
            if tries > PATIENCE:
                if isinstance(error, RedisClusterException):  # no RedisError
                    raise ConnectionError(str(error)) from error
                raise
            time.sleep(backoff.pause_s())
            with suppress(RedisError, RedisClusterException):
                redis.nodes_manager.initialize()
            log.debug("trying the cluster again after %r", error)


def _run_on_nodes(redis: Any, calls: Sequence[ScriptCall[R]]) -> list[Any]:
    by_node: defaultdict[str, list[int]] = defaultdict(list)
    for number, call in enumerate(calls):
        by_node[redis.get_node_from_key(call.keys[0]).name].append(number)
    replies: list[Any] = [None] * len(calls)
    for name, numbers in by_node.items():
        client = redis.get_redis_connection(redis.get_node(node_name=name))
        _put(replies, numbers, _run_on_server(client, [calls[number] for number in numbers]))
    return replies


def _run_on_server(redis: Redis, calls: Sequence[ScriptCall[R]]) -> list[Any]:
    replies: list[Any] = [NoScriptError()] * len(calls)
    while missing := [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]:
        with redis.pipeline(transaction=False) as pipe:
            for at in missing:
                pipe.execute_command(*calls[at].command())  # type: ignore[no-untyped-call]  # so in redis-py
            _put(replies, missing, pipe.execute(raise_on_error=False))
        for text in _texts(calls, replies):
            redis.script_load(text)
    return replies


def _put(replies: list[Any], places: Sequence[int], outcomes: Sequence[Any]) -> None:
    for at, reply in zip(places, outcomes, strict=True):
        if isinstance(reply, Exception) and not isinstance(reply, NoScriptError):
            raise reply
        replies[at] = reply


def _texts(calls: Sequence[ScriptCall[R]], replies: Sequence[Any]) -> set[str]:
    return {call.lua.text for call, reply in zip(calls, replies, strict=True) if isinstance(reply, NoScriptError)}
