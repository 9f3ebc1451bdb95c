"""One step of a notifier in Redis: one script writes what was read, decided and answered, or nothing."""

import asyncio
from collections.abc import Sequence
from typing import Final, cast

from redis import ConnectionError as RedisConnectionError
from redis import TimeoutError as RedisTimeoutError
from redis.asyncio import Redis

from ragtide_runtime.errors import LeaseLostError, StreamRollbackError
from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.redis.keys import NOTIFY_GROUP, OutboxField, Streams
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_script

from .outbox import OutboxChanges

WRITE: Final = Lua("write_outbox")

TRIES: Final = 8
"""Tries of a step that Redis does not answer. A message whose answer is not written is sent twice."""


def write_outbox(
    streams: Streams, token: str, revision: int, changes: OutboxChanges, read: Sequence[str]
) -> ScriptCall[str]:
    """Return the call that writes a step; its reply is `written`, `fenced` or `moved`.

    Args:
        streams: keys of the partition.
        token: fencing token of the owner.
        revision: number of steps before.
        read: ids of the alerts that became entries of the outbox.
    """
    fields = [part for name, value in changes.fields.items() for part in (name, value)]
    letters = [letter.encode() for letter in changes.dead_letters]
    alerts = [alert.encode() for alert in changes.alerts]
    arguments: list[Argument] = [token, revision, revision + 1, NOTIFY_GROUP]
    lists: tuple[Sequence[Argument], ...] = (list(read), fields, changes.removed, letters, alerts)
    for items in lists:
        arguments += [len(items), *items]
    keys = (streams.notifier_lease, streams.outbox, streams.alerts, streams.dead_letters)
    return ScriptCall(WRITE, keys, arguments, bytes.decode)


class OutboxStore:
    """The stored outbox of a partition, for the process that owns the partition.

    Args:
        streams: keys of the partition.
        token: fencing token of the owner.
    """

    def __init__(self, redis: Redis, streams: Streams, token: str) -> None:
        self._redis = redis
        self._streams = streams
        self._token = token
        self._revision = 0
        self.position: str | None = None
        """The last alert of the stream that is in the outbox, once written; None before the first."""

    async def read(self) -> dict[bytes, bytes]:
        """Return the stored fields.

        Raises:
            redis.RedisError: Redis failed.
        """
        stored = cast("dict[bytes, bytes]", await self._redis.hgetall(self._streams.outbox))
        self._revision = int(stored.pop(OutboxField.REVISION.encode(), b"0"))
        position = stored.pop(OutboxField.POSITION.encode(), None)
        self.position = None if position is None else position.decode()
        return stored

    async def write(self, changes: OutboxChanges, read: Sequence[str] = ()) -> None:
        """Write a step; nothing if nothing changed.

        Raises:
            LeaseLostError: another process owns the partition.
            StreamRollbackError: Redis lost steps that were written; read the outbox again.
            redis.RedisError: Redis does not answer, or failed.
        """
        if not (read or changes):
            return
        if read and self.position is not None:
            changes.fields[OutboxField.POSITION] = self.position.encode()
        call = write_outbox(self._streams, self._token, self._revision, changes, read)
        backoff = Backoff()
        for left in reversed(range(TRIES)):
            try:
                reply = await run_script(self._redis, call)
                break
            except (RedisConnectionError, RedisTimeoutError):
                if not left:
                    raise
                await asyncio.sleep(backoff.pause_s())
        if reply == "fenced":
            raise LeaseLostError(
                f"another process sends the notifications of partition {self._streams.partition}: this one stands by"
            )
        if reply == "moved":
            raise StreamRollbackError(
                f"Redis lost notifications of partition {self._streams.partition}: they are read again"
            )
        self._revision += 1
