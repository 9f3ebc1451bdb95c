"""Checks in Redis that a recorder still owns a partition, and keeps unrecorded entries from being trimmed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, cast

from redis.asyncio import Redis

from ragtide_runtime.errors import LeaseLostError, StreamRollbackError
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import RECORD_GROUP, Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.log import pin, unpin
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_script

CHECK: Final = Lua("check_recording")
ADVANCE: Final = Lua("advance_recording")

State = Literal["held", "fenced", "lost"]
"""The recorder holds the lease, another recorder holds it, or Redis lost entries that were read."""


def check_recording(lease: str, token: str, read: Mapping[str, Sequence[str]]) -> ScriptCall[State]:
    """Return the call that checks the lease of a recorder, and the existence of the entries that it has read.

    Args:
        lease: key of the lease.
        read: for each stream the last entry of every read.
    """
    arguments: list[Argument] = [token]
    for ends in read.values():
        arguments += [len(ends), *ends]
    return ScriptCall(CHECK, (lease, *read), arguments, _state)


def advance_recording(lease: str, token: str, positions: Mapping[str, str]) -> ScriptCall[State]:
    """Return the call that allows the entries of streams up to these positions to be trimmed."""
    return ScriptCall(ADVANCE, (lease, *positions), (token, RECORD_GROUP, *positions.values()), _state)


def _state(reply: bytes) -> State:
    return cast("State", reply.decode())


class Fence:
    """The lease and the pins of one partition, for the recorder that has the token."""

    def __init__(self, redis: Redis, streams: Streams, kinds: Sequence[EntryKind], *, token: str) -> None:
        self._redis = redis
        self._streams = streams
        self._kinds = kinds
        self._token = token

    async def check(self, read: Mapping[EntryKind, Sequence[str]]) -> None:
        """Check that this recorder still owns the partition, and that the streams have all entries that it has read.

        Args:
            read: for each stream the last entry of every read.

        Raises:
            LeaseLostError: another recorder has the lease.
            StreamRollbackError: Redis lost entries that were read.
            redis.RedisError: Redis failed.
        """
        ends = {
            kind.stream(self._streams): [entry_id for entry_id in read.get(kind, ()) if entry_id != START]
            for kind in self._kinds
        }
        state = await run_script(self._redis, check_recording(self._streams.recorder_lease, self._token, ends))
        if state == "lost":
            raise StreamRollbackError(
                f"partition {self._streams.partition} lost entries that were read from its streams: Redis came back "
                "without its last writes; the other entries are read again from the last manifest"
            )
        self._held(state)

    async def pin(self) -> None:
        """Pin the streams that are recorded, and unpin the others.

        Raises:
            redis.RedisError: Redis failed.
        """
        await unpin_streams(self._redis, self._streams, [kind for kind in EntryKind if kind not in self._kinds])
        await pin_streams(self._redis, self._streams, self._kinds)

    async def advance(self, positions: Mapping[EntryKind, str]) -> None:
        """Allow recorded entries to be trimmed.

        Raises:
            LeaseLostError: another recorder has the lease.
            redis.RedisError: Redis failed, or a group was removed.
        """
        at = {kind.stream(self._streams): positions.get(kind, START) for kind in self._kinds}
        call = advance_recording(self._streams.recorder_lease, self._token, at)
        self._held(await run_script(self._redis, call))

    def _held(self, state: State) -> None:
        if state != "held":
            raise LeaseLostError(f"partition {self._streams.partition} has another recorder now: standing by")


async def pin_streams(redis: Redis, streams: Streams, kinds: Iterable[EntryKind]) -> None:
    """Keep unrecorded entries of streams from being trimmed; existing pins stay at their positions.

    Raises:
        redis.RedisError: Redis failed.
    """
    for kind in kinds:
        await pin(redis, kind.stream(streams), RECORD_GROUP)


async def forget_recorder(redis: Redis, layout: Layout) -> None:
    """Unpin the streams of all partitions, so that they are trimmed as without a recorder."""
    for streams in layout.all():
        await unpin_streams(redis, streams, EntryKind)


async def unpin_streams(redis: Redis, streams: Streams, kinds: Iterable[EntryKind]) -> None:
    """Remove the recorder's pins of streams.

    Raises:
        redis.RedisError: Redis failed.
    """
    for kind in kinds:
        await unpin(redis, kind.stream(streams), RECORD_GROUP)
