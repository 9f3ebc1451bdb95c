"""Many runs of server-side scripts in one round trip, on a single Redis and on a cluster alike."""

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from redis import Redis, RedisError
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster
from redis.commands.core import AsyncScript, Script
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - Redis's own
    MovedError,
    NoScriptError,
    ReadOnlyError,
    TimeoutError,  # noqa: A004 - the same
    TryAgainError,
)

from ..waiting import Backoff
from .client import PATIENCE

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
"""Errors of a cluster that chooses another master or moves a slot: it is asked again."""

Argument = str | bytes | int | float


class Run(NamedTuple):
    """One run of a script: the keys of one partition, and the arguments."""

    script: AsyncScript
    keys: Sequence[str]
    args: Sequence[Argument]


async def run_together(redis: AsyncRedis, runs: Sequence[Run]) -> list[Any]:
    """Return the reply of every run, in order. Every script must be safe to repeat: some may run twice.

    Raises:
        redis.RedisError: some or all may not have been run.
    """
    if not isinstance(redis, AsyncRedisCluster):
        async with redis.pipeline(transaction=False) as pipe:
            for run in runs:
                await run.script(keys=run.keys, args=run.args, client=pipe)
            return list(await pipe.execute())
    # redis-py keeps scripts out of a cluster's pipelines, since it cannot know which nodes have them.
    while True:
        async with redis.pipeline(transaction=False) as pipe:
            for run in runs:
                pipe.execute_command("EVALSHA", run.script.sha, len(run.keys), *run.keys, *run.args)
            try:
                return list(await pipe.execute())
            except NoScriptError:
                pass
        for text in {run.script.script for run in runs}:
            await redis.script_load(text)


class BlockingRun(NamedTuple):
    """One run of a script by a blocking client."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Argument]


def run_together_blocking(redis: Redis, runs: Sequence[BlockingRun]) -> list[Any]:
    """Do as `run_together`, with a blocking client."""
    if not isinstance(redis, RedisCluster):
        return _on_server(redis, runs)
    # Node by node: redis-py would ask the cluster's first node for the keys of every script, even after it died.
    tries, backoff = 0, Backoff(0.2, 1.0, random_share=0.0)
    while True:
        try:
            return _on_nodes(redis, runs)
        except MOVING as error:
            tries += 1
            if tries > PATIENCE:
                raise
            time.sleep(backoff.pause_s())
            with suppress(RedisError):
                redis.nodes_manager.initialize()
            log.debug("asking the cluster again after %r", error)


def _on_nodes(redis: Any, runs: Sequence[BlockingRun]) -> list[Any]:
    # A cluster's client; untyped, as those of its methods are in redis-py.
    of_node: defaultdict[str, list[int]] = defaultdict(list)
    for number, run in enumerate(runs):
        of_node[redis.get_node_from_key(run.keys[0]).name].append(number)
    replies: list[Any] = [None] * len(runs)
    for name, numbers in of_node.items():
        client = redis.get_redis_connection(redis.get_node(node_name=name))
        for number, reply in zip(numbers, _on_server(client, [runs[number] for number in numbers]), strict=True):
            replies[number] = reply
    return replies


def _on_server(redis: Redis, runs: Sequence[BlockingRun]) -> list[Any]:
    with redis.pipeline(transaction=False) as pipe:
        for run in runs:
            run.script(keys=run.keys, args=run.args, client=pipe)
        return list(pipe.execute())
