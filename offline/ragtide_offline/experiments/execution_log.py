"""The execution log of an experiment: one script writes each execution once, together with its answer."""

import asyncio
from typing import Final, cast

from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.redis.keys import DATA_FIELD, Streams, executed_field, known_digest
from ragtide_runtime.redis.log import read_range
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_schemas import RagInteraction
from ragtide_schemas.experiments import Execution

RECORD: Final = Lua("record_execution")


class ExecutionLog:
    """The executions of one experiment.

    Args:
        redis: client.
        streams: keys of the experiment.
        dedupe_window_s: seconds for which the id of an answer stays known.
    """

    def __init__(self, redis: Redis, streams: Streams, *, dedupe_window_s: float) -> None:
        self._redis = redis
        self._streams = streams
        self._window_ms = int(dedupe_window_s * 1000)

    async def write(self, execution: Execution, interaction: RagInteraction | None) -> bool:
        """Write an execution with its answer; return whether it was the first of this config on this item.

        Raises:
            redis.RedisError: the execution may or may not have been written; write it again.
        """
        call = record_execution(self._streams, execution, interaction, self._window_ms)
        return await run_script(self._redis, call)

    async def write_surely(self, execution: Execution, interaction: RagInteraction | None) -> bool:
        """Write as `write` does, and repeat it until Redis answers."""
        outage, backoff = redis_outage(self._redis).attempt("writing answers"), Backoff()
        while True:
            try:
                written = await self.write(execution, interaction)
            except RedisError as error:
                outage.failed(error)
                await asyncio.sleep(backoff.pause_s())
            else:
                outage.succeeded()
                return written

    async def answer(self, config: str, item: int) -> RagInteraction | None:
        """Return the answer of a config to an item; None if there is none on the stream."""
        reply = await self._redis.hget(self._streams.executed, executed_field(config, item))
        entry_id = cast("bytes | None", reply)
        if not entry_id:
            return None
        entries = await read_range(
            self._redis, self._streams.interactions, first=entry_id.decode(), last=entry_id.decode(), count=1
        )
        return RagInteraction.decode(entries[0].fields[DATA_FIELD]) if entries else None


def record_execution(
    streams: Streams, execution: Execution, interaction: RagInteraction | None, dedupe_ms: int
) -> ScriptCall[bool]:
    """Return the call that writes an execution with its answer; its reply is whether it was the first."""
    identity = execution.config, execution.interaction_id or ""
    keys = (streams.executed, streams.executions, streams.interactions, *streams.owner_keys(*identity))
    answer = b"" if interaction is None else interaction.encode()
    field = executed_field(execution.config, execution.item)
    return ScriptCall(RECORD, keys, (field, execution.encode(), answer, dedupe_ms, known_digest(*identity)), bool)
