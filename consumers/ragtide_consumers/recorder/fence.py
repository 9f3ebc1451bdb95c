"""The recorder's requests to Redis: check that it still owns a partition, and let only recorded entries be trimmed."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from redis import ResponseError
from redis.asyncio import Redis

from ragtide_runtime.errors import LeaseLostError, StreamRollbackError
from ragtide_runtime.recordings import Kind
from ragtide_runtime.redis.keys import RECORD_GROUP, Streams
from ragtide_runtime.redis.log import START
from ragtide_runtime.redis.stream_loss import LOST_LUA

CHECK_SCRIPT: Final = (
    LOST_LUA
    + """
-- KEYS: the recorder's lease, then streams. ARGV: token, then for each stream how many ids, and the ids.
-- Returns 'fenced' if another recorder holds the lease, 'lost' if Redis lost entries that were read, otherwise 'held'.
-- A lease that ran out is not fenced: if another recorder wrote in between, the number of the next manifest is taken.
-- A loss takes the last entry of every read first. An entry before the stream's first one was trimmed, not lost.
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
    return 'fenced'
end
local at = 2
for i = 2, #KEYS do
    local last = at + tonumber(ARGV[at])
    for j = at + 1, last do
        if lost(KEYS[i], ARGV[j]) then
            return 'lost'
        end
    end
    at = last + 1
end
return 'held'
"""
)

ADVANCE_SCRIPT: Final = """
-- KEYS: the recorder's lease, then streams. ARGV: token, group, then a position for each stream.
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
    return 'fenced'
end
for i = 2, #KEYS do
    redis.call('XGROUP', 'SETID', KEYS[i], ARGV[2], ARGV[i + 1])
end
return 'held'
"""


class Fence:
    """The lease and the groups of one partition, seen by the recorder that has the token."""

    def __init__(self, redis: Redis, streams: Streams, kinds: Sequence[Kind], *, token: str) -> None:
        self._redis = redis
        self._streams = streams
        self._kinds = kinds
        self._token = token
        self._check = redis.register_script(CHECK_SCRIPT)
        self._advance = redis.register_script(ADVANCE_SCRIPT)

    async def check(self, read: Mapping[Kind, Sequence[str]]) -> None:
        """Check that this recorder still owns the partition, and that the streams have all that was read.

        Args:
            read: for each stream the last entry of every read.

        Raises:
            LeaseLostError: another recorder has the lease.
            StreamRollbackError: Redis lost entries that were read.
            redis.RedisError: Redis failed.
        """
        ids: list[str | int] = []
        for kind in self._kinds:
            ends = [entry_id for entry_id in read.get(kind, ()) if entry_id != START]
            ids += [len(ends), *ends]
        reply = await self._check(keys=self._keys(), args=[self._token, *ids])
        if reply == b"lost":
            raise StreamRollbackError(
                f"partition {self._streams.partition} lost entries that were read from its streams: Redis came back "
                "without its last writes; the other entries are read again from the last manifest"
            )
        self._held(reply)

    async def hold(self) -> None:
        """Make the groups that keep unrecorded entries from being trimmed; those that exist stay where they are.

        Those of streams that are no longer to be recorded are removed.

        Raises:
            redis.RedisError: Redis failed.
        """
        await let_go(self._redis, self._streams, [kind for kind in Kind if kind not in self._kinds])
        await hold(self._redis, self._streams, self._kinds)

    async def advance(self, positions: Mapping[Kind, str]) -> None:
        """Let recorded entries be trimmed.

        Raises:
            LeaseLostError: another recorder has the lease.
            redis.RedisError: Redis failed, or a group is gone.
        """
        at = [positions.get(kind, START) for kind in self._kinds]
        self._held(await self._advance(keys=self._keys(), args=[self._token, RECORD_GROUP, *at]))

    def _keys(self) -> list[str]:
        return [self._streams.recorder_lease, *(kind.stream(self._streams) for kind in self._kinds)]

    def _held(self, reply: bytes) -> None:
        if reply != b"held":
            raise LeaseLostError(f"partition {self._streams.partition} has another recorder now: standing by")


async def hold(redis: Redis, streams: Streams, kinds: Iterable[Kind]) -> None:
    """Make the groups that keep unrecorded entries from being trimmed; those that exist stay where they are.

    Raises:
        redis.RedisError: Redis failed.
    """
    for kind in kinds:
        try:
            await redis.xgroup_create(kind.stream(streams), RECORD_GROUP, id=START, mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise


async def let_go(redis: Redis, streams: Streams, kinds: Iterable[Kind]) -> None:
    """Remove the recorder's group of streams, so that they are trimmed as without a recorder.

    Raises:
        redis.RedisError: Redis failed.
    """
    for kind in kinds:
        with suppress(ResponseError):  # there is no such stream
            await redis.xgroup_destroy(kind.stream(streams), RECORD_GROUP)
