"""Reads alerts for subscribers: all of them in a live tail, or those of a consumer group, each finished once.

The position of a live tail lives in its process; Redis keeps the position of a group.
"""

import asyncio
import logging
import os
import socket
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final, Protocol
from uuid import uuid4

from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.consumer_groups import (
    claim_abandoned,
    create_group,
    create_groups,
    delete_idle_consumers,
    group_position,
    read_group,
    release,
    renew_claims,
)
from ragtide_runtime.redis.entries import START, Entry, order
from ragtide_runtime.redis.log import last_id, read_after, read_last, read_range
from ragtide_runtime.redis.scripts import run_script

REMEMBERED: Final = 100
"""Ids of entries that are remembered for each stream, to find where the stream has lost its end."""


class StreamPositions:
    """The id of the last entry that was read in each of several streams."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._seen: dict[str, deque[str]] = {}

    def __getitem__(self, stream: str) -> str:
        """Return the position in a stream."""
        return self._last[stream]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the streams."""
        return iter(self._last)

    def all(self) -> dict[str, str]:
        """Return the position in each stream."""
        return dict(self._last)

    def advance(self, stream: str, entry_id: str) -> None:
        """Set the position in a stream to an entry that was read."""
        self._last[stream] = entry_id
        self._seen.setdefault(stream, deque(maxlen=REMEMBERED)).append(entry_id)

    async def go_back(self, redis: Redis) -> None:
        """Set the position in each stream whose end Redis lost back to the last remembered entry that is still there.

        The entries after it are lost, so no entry is read twice. Entries written after the loss may have smaller ids.
        """
        for stream, seen in self._seen.items():
            for entry_id in reversed(seen):
                if entry_id == START or await read_range(redis, stream, first=entry_id, last=entry_id, count=1):
                    self._last[stream] = entry_id
                    break
            else:
                # The stream holds no remembered entry: it was trimmed, or Redis lost all of them.
                if order(await last_id(redis, stream)) < order(self._last[stream]):
                    self._last[stream] = START


AT_ONCE: Final = 100
"""Most alerts of a partition read at once."""

POLL_MS: Final = 1000
"""Milliseconds that one read waits for alerts."""


class AlertSource(Protocol):
    """Reads entries of the alerts streams, one after the other."""

    async def open(self) -> None:
        """Set the positions at which reading begins."""

    async def read(self) -> tuple[str, Entry] | None:
        """Return the next entry and its stream; None after a while without an entry, or if more must be read first."""

    def finish(self) -> None:
        """Count the entry that was read last as finished."""

    def restart(self) -> None:
        """Begin a new loop of the user: an entry that is not finished comes again."""

    async def recover(self) -> None:
        """Find the positions again after Redis failed."""

    async def close(self, *, finished: bool) -> None:
        """End reading; `finished` says whether the user finished the entry that was read last."""


class AlertTail:
    """Reads every entry after a position.

    Args:
        streams: keys of the alerts streams.
        from_start: begin with the first entry instead of the next entry.
    """

    def __init__(self, redis: Redis, streams: Sequence[str], *, from_start: bool) -> None:
        self._redis = redis
        self._streams = streams
        self._from_start = from_start
        self._positions = StreamPositions()
        self._waiting: deque[tuple[str, Entry]] = deque()

    async def open(self) -> None:
        """Set the positions now and not at the first read, so that no entry in between is missed."""
        for stream in self._streams:
            last = None if self._from_start else await read_last(self._redis, stream)
            self._positions.advance(stream, last.entry_id if last else START)

    async def read(self) -> tuple[str, Entry] | None:
        """Return the next entry; None if there was none, or if more must be read first."""
        if not self._waiting:
            reads = await read_after(self._redis, self._positions.all(), count=AT_ONCE, block_ms=POLL_MS)
            self._waiting.extend((stream, entry) for stream, entries in reads for entry in entries)
            return None
        stream, entry = self._waiting.popleft()
        self._positions.advance(stream, entry.entry_id)
        return stream, entry

    def finish(self) -> None:
        """Do nothing: an entry that was read counts as finished."""

    def restart(self) -> None:
        """Do nothing: the next entry comes."""

    async def recover(self) -> None:
        """Go back where Redis lost the end of a stream."""
        await self._positions.go_back(self._redis)

    async def close(self, *, finished: bool) -> None:
        """Do nothing."""


CHECK_S: Final = 10.0
"""Most seconds between two searches for alerts of dead consumers."""

CLOSE_S: Final = 5.0
"""Most seconds that closing waits for Redis."""

FORGOTTEN_S: Final = 3600.0
"""Seconds after which a consumer without alerts, whose process died, is removed from the group."""

log: Final = logging.getLogger("ragtide.alerts")


class AlertGroupSource:
    """Reads entries of a consumer group, and acknowledges finished entries before the next read.

    The streams may be others than those of alerts: a bridge reads metric events and estimates, too.

    Entries that this consumer holds come first: those of a reply that was lost, and those of dead consumers, which have
    not renewed their claim for `claim_idle_s`. A task renews the claims of this consumer three times in that time.

    Args:
        streams: keys of the alerts streams, of partition 0 first.
        group: name of the group.
        from_start: whether a group that does not exist begins with the first entry instead of the next entry.
        claim_idle_s: seconds after which another consumer takes over an entry that is not renewed.
        at_once: most entries of a stream that this consumer holds.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Sequence[str],
        group: str,
        *,
        from_start: bool,
        claim_idle_s: float,
        at_once: int = 1,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._group = group
        self._from_start = from_start
        self._claim_idle_s = claim_idle_s
        self._at_once = at_once
        self._consumer = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"
        self._positions = StreamPositions()
        self._waiting: deque[tuple[str, Entry]] = deque()
        self._held: list[tuple[str, Entry]] = []
        self._finished: defaultdict[str, list[str]] = defaultdict(list)
        self._check_at = 0.0
        self._renewing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Create the group where it is missing."""
        await create_groups(self._redis, self._streams, self._group, from_start=self._from_start)
        for stream in self._streams:
            self._positions.advance(stream, await group_position(self._redis, stream, self._group) or START)
        self._renewing = asyncio.create_task(self._renew())

    async def read(self) -> tuple[str, Entry] | None:
        """Return the next entry; None if there was none, or if it was dropped while this consumer held it."""
        entries = await self._take(1)
        if not entries:
            self.finish()
            return None
        return entries[0]

    async def read_all(self) -> list[tuple[str, Entry]]:
        """Return the next entries, without those that were dropped while this consumer held them."""
        return await self._take(len(self._streams) * self._at_once)

    async def _take(self, most: int) -> list[tuple[str, Entry]]:
        await self._acknowledge()
        if not self._waiting:
            self._waiting.extend(await self._fetch())
        while self._waiting and len(self._held) < most:
            self._held.append(self._waiting.popleft())
        for stream, entry in self._held:
            if not entry.fields:
                log.warning("%s of %s was trimmed before the group %r had it", entry.entry_id, stream, self._group)
        return [(stream, entry) for stream, entry in self._held if entry.fields]

    def finish(self) -> None:
        """Acknowledge the entries that were read last before the next read."""
        for stream, entry in self._held:
            self._finished[stream].append(entry.entry_id)
            self._positions.advance(stream, entry.entry_id)
        self._held = []

    def restart(self) -> None:
        """Begin with the entries that the last loop did not finish."""
        self._waiting.extendleft(reversed(self._held))
        self._held = []
        self._check_at = 0.0  # the reply of a cancelled read may have been lost

    async def recover(self) -> None:
        """Create the group again where Redis lost it, after the last entry that this process finished."""
        await self._positions.go_back(self._redis)
        for stream in self._streams:
            if await create_group(self._redis, stream, self._group, self._positions[stream]):
                log.warning("the group %r of %s was gone and was created again", self._group, stream)
        # The group still has them, so they come again.
        self._waiting.clear()
        self._check_at = 0.0

    async def close(self, *, finished: bool) -> None:
        """Acknowledge finished entries, leave the others to other consumers, and remove this consumer."""
        if self._renewing is not None:
            await end(self._renewing)
        if finished:
            self.finish()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._acknowledge()
                for stream, entry_ids in self._claims().items():
                    await release(self._redis, stream, self._group, self._consumer, entry_ids)
                for stream in self._streams:
                    await run_script(self._redis, delete_idle_consumers(stream, self._group, [self._consumer]))
        except (RedisError, OSError, TimeoutError) as error:
            log.warning("the group %r could not be left (%s); its last alert may come again", self._group, error)

    async def _fetch(self) -> list[tuple[str, Entry]]:
        if monotonic() >= self._check_at:
            for stream in self._streams:
                await claim_abandoned(
                    self._redis,
                    stream,
                    self._group,
                    self._consumer,
                    min_idle_s=self._claim_idle_s,
                    count=self._at_once,
                )
            if own := await self._read_group(own=True):
                return own
            await self._remove_forgotten()
            self._check_at = monotonic() + min(self._claim_idle_s / 2, CHECK_S)
        return await self._read_group(own=False, block_ms=POLL_MS)

    async def _read_group(self, *, own: bool, block_ms: int | None = None) -> list[tuple[str, Entry]]:
        return await read_group(
            self._redis,
            self._streams,
            self._group,
            self._consumer,
            own=own,
            block_ms=block_ms,
            count=self._at_once,
        )

    async def _acknowledge(self) -> None:
        for stream in list(self._finished):
            await self._redis.xack(stream, self._group, *self._finished[stream])
            del self._finished[stream]

    async def _remove_forgotten(self) -> None:
        for stream in self._streams:
            consumers = await self._redis.xinfo_consumers(stream, self._group)
            names = [
                consumer["name"]
                for consumer in consumers
                if not consumer["pending"] and consumer["idle"] > 1000 * FORGOTTEN_S
            ]
            if names:
                await run_script(self._redis, delete_idle_consumers(stream, self._group, names))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._claim_idle_s / 3)
            for stream, entry_ids in self._claims().items():
                with suppress(RedisError, OSError):  # reading reports the failure
                    await run_script(self._redis, renew_claims(stream, self._group, self._consumer, entry_ids))

    def _claims(self) -> dict[str, list[str]]:
        entry_ids: defaultdict[str, list[str]] = defaultdict(list)
        for stream, entry in (*self._held, *self._waiting):
            entry_ids[stream].append(entry.entry_id)
        return entry_ids
