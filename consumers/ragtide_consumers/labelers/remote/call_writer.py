"""Writes the counts of a process's calls to Redis, each batch once."""

from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

from redis.asyncio import Redis

from ragtide_runtime.calls.call_counts import CallCounts
from ragtide_runtime.calls.endpoint_states import count_calls
from ragtide_runtime.redis.keys import Streams, deployment_prefix
from ragtide_runtime.redis.scripts import run_script
from ragtide_schemas import utc_now


class CallWriter:
    """Writes the counts of one endpoint. A batch that Redis did not answer is sent again, and counted once.

    Args:
        redis: client.
        prefix: of the deployment or of one of its workspaces.
        labeler: name of the labeler that calls the endpoint.
        counts: of the process; each batch empties them.
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
