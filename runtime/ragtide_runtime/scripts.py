"""Many runs of server-side scripts in one round trip, on a single Redis and on a cluster alike."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster
from redis.commands.core import AsyncScript, Script
from redis.exceptions import NoScriptError

Argument = str | bytes | int | float


class Run(NamedTuple):
    """One run of a script: the keys of one partition, and what it is told."""

    script: AsyncScript
    keys: Sequence[str]
    args: Sequence[Argument]


async def run_together(redis: AsyncRedis, runs: Sequence[Run]) -> list[Any]:
    """Return the reply of every run, in order.

    Raises:
        redis.RedisError: some or all may not have been run.
    """
    async with redis.pipeline(transaction=False) as pipe:
        if not isinstance(redis, AsyncRedisCluster):
            for run in runs:
                await run.script(keys=run.keys, args=run.args, client=pipe)
            return list(await pipe.execute())
        # redis-py keeps scripts out of a cluster's pipelines: it cannot know which nodes have them.
        for run in runs:
            pipe.execute_command("EVALSHA", run.script.sha, len(run.keys), *run.keys, *run.args)
        replies = list(await pipe.execute(raise_on_error=False))
    for number, (run, reply) in enumerate(zip(runs, replies, strict=True)):
        if isinstance(reply, NoScriptError):  # nothing was run: this time with the script's text
            replies[number] = await redis.eval(run.script.script, len(run.keys), *run.keys, *run.args)
        elif isinstance(reply, Exception):
            raise reply
    return replies


class BlockingRun(NamedTuple):
    """One run of a script by a blocking client."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Argument]


def run_together_blocking(redis: Redis, runs: Sequence[BlockingRun]) -> list[Any]:
    """Do as `run_together`, with a blocking client."""
    with redis.pipeline(transaction=False) as pipe:
        if not isinstance(redis, RedisCluster):
            for run in runs:
                run.script(keys=run.keys, args=run.args, client=pipe)
            return list(pipe.execute())
        for run in runs:
            pipe.execute_command("EVALSHA", run.script.sha, len(run.keys), *run.keys, *run.args)
        replies = list(pipe.execute(raise_on_error=False))
    for number, (run, reply) in enumerate(zip(runs, replies, strict=True)):
        if isinstance(reply, NoScriptError):
            replies[number] = redis.eval(run.script.script, len(run.keys), *run.keys, *run.args)
        elif isinstance(reply, Exception):
            raise reply
    return replies
