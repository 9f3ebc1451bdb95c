"""Recordings that commands verify, and the entries that still wait for their recorder."""

import asyncio
from dataclasses import dataclass

from redis import RedisError

from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.backlog import read_backlogs
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import (
    RECORD_GROUP,
    Streams,
)
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings

from .progress import interruptible, progress_bar


def problems_of_files(recording: Recording) -> list[str]:
    """Return the problems of the files, with a progress bar."""
    done, problems = 0, list[str]()

    def kept() -> str:
        return f"{done:,} of {recording.file_count:,} files were read: to verify all, give the same command again."

    with interruptible(kept), progress_bar("verifying", recording.file_count) as show:

        def each() -> None:
            nonlocal done
            done += 1
            show(done)

        problems += recording.verify(each)
    return problems


@dataclass(frozen=True, slots=True)
class WaitingEntries:
    """Entries of the streams that a running recorder has not written into a recording yet."""

    count: int
    next_file_s: float | None
    """Seconds within which the recorder writes its next file; None if no entry waits."""

    def sentence(self) -> str:
        """Return them in words."""
        if self.next_file_s is None:
            return "a recorder writes into this recording, and no entry waits for it"
        entries = "1 entry waits" if self.count == 1 else f"{self.count:,} entries wait"
        return f"{entries} for the recorder; its next file comes within {self.next_file_s:,.0f} s (recorder.roll_s)"


def waiting_entries(settings: Settings, recording: Recording) -> WaitingEntries | None:
    """Return the entries that wait for the recorder of a recording; None if none writes into it, as far as is known.

    It asks the Redis of the settings, and starts none. The recorder that owns a partition wrote its last manifest.
    """
    if not settings.redis_address and not EmbeddedRedis.runs_in(settings.data_dir):
        return None

    async def body(url: str) -> WaitingEntries | None:
        async with connect_async(url) as redis:
            owned = []
            for state in recording.partitions.values():
                streams = Streams(state.prefix or settings.prefix, state.partition)
                lease = await redis.get(streams.recorder_lease)
                if isinstance(lease, bytes) and lease.decode(errors="replace") == state.written_by:
                    owned.append((streams, state))
            if not owned:
                return None
            count = 0
            for streams, state in owned:
                for kind in state.positions:
                    groups = await redis.xinfo_groups(kind.stream(streams))
                    count += sum(group["lag"] or 0 for group in groups if group["name"] == RECORD_GROUP.encode())
            ages = [
                backlog.unrecorded_s or 0.0
                for backlog in await read_backlogs(redis, [streams_owned for streams_owned, _ in owned])
            ]
            return WaitingEntries(count, max(settings.recorder.roll_s - max(ages), 0.0) if count else None)

    try:
        with resolve_redis(settings.redis_address, settings.data_dir) as handle:
            return asyncio.run(body(handle.url))
    except (RedisError, RedisUnavailable, KeyError):  # without Redis, or before 7.0, the files are all that is known
        return None
