"""What was executed, written exactly once: the execution and the answer in one script, or none of both."""

from typing import Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import DATA_FIELD, Streams, executed_field, known_digest
from ragtide_runtime.redis.known_ids import KNOWN_IDS
from ragtide_runtime.redis.log import read_all, read_range
from ragtide_schemas import RagInteraction
from ragtide_schemas.experiments import Execution

EXECUTED_SCRIPT: Final = (
    KNOWN_IDS
    + """
-- KEYS: executed, executions, interactions, the keys of the interaction id's owner (7).
-- ARGV: field, execution, interaction or nothing, dedupe window in ms, digest.
-- Returns 1, or 0 if this config has an answer to this item already.
if redis.call('HSETNX', KEYS[1], ARGV[1], '') == 0 then
    return 0
end
if ARGV[3] ~= '' then
    local entry = redis.call('XADD', KEYS[3], '*', 'data', ARGV[3])
    remember_id(4, ARGV[5], entry, tonumber(ARGV[4]))
    redis.call('HSET', KEYS[1], ARGV[1], entry)
end
redis.call('XADD', KEYS[2], '*', 'data', ARGV[2])
return 1
"""
)

Pair = tuple[str, int]
"""A config and the place of an item."""


class Ledger:
    """The executions of one experiment.

    Args:
        redis: where they are.
        streams: keys of the experiment's run.
        dedupe_window_s: seconds for which workers know an answer's id.
    """

    def __init__(self, redis: Redis, streams: Streams, *, dedupe_window_s: float) -> None:
        self._redis = redis
        self._streams = streams
        self._window_ms = int(dedupe_window_s * 1000)
        self._script = redis.register_script(EXECUTED_SCRIPT)

    async def read(self) -> list[Execution]:
        """Return every execution, in the order in which they ended."""
        return [
            Execution.decode(entry.fields[DATA_FIELD])
            async for entry in read_all(self._redis, self._streams.executions)
        ]

    async def write(self, execution: Execution, interaction: RagInteraction | None) -> bool:
        """Write an execution with its answer; return whether it was the first of this config on this item.

        Raises:
            redis.RedisError: it may or may not have been written; write it again.
        """
        streams = self._streams
        identity = execution.config, execution.interaction_id or ""
        reply = await self._script(
            keys=[streams.executed, streams.executions, streams.interactions, *streams.owner_keys(*identity)],
            args=[
                executed_field(execution.config, execution.item),
                execution.encode(),
                b"" if interaction is None else interaction.encode(),
                self._window_ms,
                known_digest(*identity),
            ],
        )
        return bool(reply)

    async def answer(self, config: str, item: int) -> RagInteraction | None:
        """Return the answer of a config to an item; None if it has none."""
        reply = await self._redis.hget(self._streams.executed, executed_field(config, item))
        entry_id = cast("bytes | None", reply)
        if not entry_id:
            return None
        found = await read_range(
            self._redis, self._streams.interactions, first=entry_id.decode(), last=entry_id.decode(), count=1
        )
        return RagInteraction.decode(found[0].fields[DATA_FIELD]) if found else None
