"""Writes the state of each endpoint that a process calls, and counts of its calls, for `ragtide doctor` and pages."""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Final, cast
from uuid import uuid4

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.calls.call_counts import CallCounts
from ragtide_runtime.calls.endpoint_states import EndpointState, count_calls
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.keys import Streams, deployment_prefix
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.evaluators import EvaluatorSettings
from ragtide_schemas import utc_now

CHECK_S: Final = 1.0
"""Seconds between two checks whether the state has changed."""

WRITE_S: Final = 15.0
"""Seconds after which an unchanged state is written again."""

EXPIRES_S: Final = 60
"""Seconds after which the state of a silent process expires."""

log = structlog.get_logger("ragtide.labeler")


class StateReporter:
    """Writes the state of an endpoint whenever it changes, and its counts, from the first `start` until it is closed.

    Args:
        labeler: name of the labeler that calls the endpoint.
        state: returns the present state.
        evaluator: that calls it; each has an endpoint of its own.
    """

    def __init__(
        self,
        redis: Redis,
        prefix: str,
        labeler: str,
        state: Callable[[], EndpointState],
        *,
        counts: CallCounts,
        evaluator: EvaluatorSettings | None = None,
    ) -> None:
        self._redis = redis
        self._streams = Streams(deployment_prefix(prefix), 0)
        self._set = self._streams.endpoint_states
        self._process = f"{socket.gethostname()}-{os.getpid()}" + ("" if labeler == "judge" else f"-{labeler}")
        self._process += "" if evaluator is None else f"-{evaluator.name}"
        self._own = self._streams.endpoint_state(self._process)
        self._state = state
        self._counts = CallWriter(redis, prefix, labeler, counts)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write; a repeated call does nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def aclose(self) -> None:
        """Stop, and remove the state."""
        if self._task is None:
            return
        await end(self._task)
        await self._write_counts()  # a batch that was being sent
        await self._write_counts()  # the rest
        try:
            await self._redis.srem(self._set, self._process)
            await self._redis.delete(self._own)
        except RedisError as error:
            log.debug("an endpoint's state could not be removed", error=str(error))

    async def _run(self) -> None:
        written: EndpointState | None = None
        since_s = 0.0
        pruned = False
        while True:
            await self._write_counts()
            state = self._state()
            if state != written or since_s >= WRITE_S:
                try:
                    async with self._redis.pipeline(transaction=False) as pipe:
                        pipe.set(self._own, json.dumps(asdict(state)), ex=EXPIRES_S)
                        pipe.sadd(self._set, self._process)
                        pipe.expire(self._set, 86_400)
                        await pipe.execute()
                    if not pruned:
                        await self._remove_expired()
                    written, since_s, pruned = state, 0.0, True
                except RedisError as error:
                    log.debug("an endpoint's state could not be written", error=str(error))
            await asyncio.sleep(CHECK_S)
            since_s += CHECK_S

    async def _write_counts(self) -> None:
        try:
            await self._counts.write()
        except RedisError as error:
            log.debug("an endpoint's counts could not be written", error=str(error))

    async def _remove_expired(self) -> None:
        names = [name.decode() for name in cast("set[bytes]", await self._redis.smembers(self._set))]
        stored = cast(
            "list[bytes | None]", await self._redis.mget([self._streams.endpoint_state(name) for name in names])
        )
        dead = [name for name, data in zip(names, stored, strict=True) if data is None]
        if dead:
            await self._redis.srem(self._set, *dead)


class CallWriter:
    """Writes the counts of one endpoint. A batch that Redis did not answer is sent again, and counted once.

    Args:
        labeler: name of the labeler that calls the endpoint.
        now: returns the time.
    """

    def __init__(
        self, redis: Redis, prefix: str, labeler: str, counts: CallCounts, *, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._redis = redis
        self._streams = Streams(deployment_prefix(prefix), 0)
        self._labeler = labeler
        self._counts = counts
        self._now = now
        self._process = uuid4().hex
        self._written = 0
        self._unwritten: tuple[datetime, CallCounts] | None = None

    async def write(self) -> None:
        """Write what was counted since the last batch.

        Raises:
            redis.RedisError: Redis failed; the next call sends the same batch again.
        """
        if self._unwritten is None:
            if not self._counts:
                return
            self._unwritten = self._now(), self._counts.take()
        at, counts = self._unwritten
        call = count_calls(self._streams, self._labeler, counts, at=at, process=self._process, batch=self._written + 1)
        await run_script(self._redis, call)
        self._written += 1
        self._unwritten = None
