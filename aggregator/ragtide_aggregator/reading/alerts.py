"""The alerts of a deployment in their latest state; a repeated read costs only the new entries."""

import asyncio
from collections.abc import Sequence
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.entries import START, Entry, Unreadable
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.log import read_all, read_ranges
from ragtide_schemas import Alert

RESOLVED_KEPT: Final = 10_000
"""Most resolved alerts that are kept; the oldest are dropped first. All firing alerts are kept."""


class AlertLog:
    """The alerts on the streams of some partitions.

    Args:
        redis: client.
        partitions: keys of the partitions.
        resolved_kept: most resolved alerts that are kept.
    """

    def __init__(self, redis: Redis, partitions: Sequence[Streams], *, resolved_kept: int = RESOLVED_KEPT) -> None:
        self._redis = redis
        self._resolved_kept = resolved_kept
        self._streams = [streams.alerts for streams in partitions]
        self._reading = asyncio.Lock()
        self._forget()

    def _forget(self) -> None:
        self.unreadable = Unreadable("alert")
        self._last = dict.fromkeys(self._streams, START)
        self._firing: dict[str, Alert] = {}
        self._resolved: dict[str, Alert] = {}

    async def read(self) -> list[Alert]:
        """Return the alerts in the order in which they fired; without new entries this takes one round trip."""
        async with self._reading:
            # Read the last known entry and the next one. If the last known entry was trimmed or lost, start again.
            ends = await read_ranges(self._redis, self._last, count=2)
            known = {name: last for name, last in self._last.items() if last != START}
            if any(not ends[name] or ends[name][0].entry_id != last for name, last in known.items()):
                self._forget()
                ends = await read_ranges(self._redis, self._last, count=2)
            for name, last in self._last.items():
                if ends[name] and ends[name][-1].entry_id != last:
                    async for entry in read_all(self._redis, name, after=last):
                        self._take(name, entry)
        return sorted([*self._firing.values(), *self._resolved.values()], key=lambda alert: alert.fired_at)

    def _take(self, stream: str, entry: Entry) -> None:
        self._last[stream] = entry.entry_id
        alert = self.unreadable.decode(Alert, stream, entry)
        if alert is None:
            return
        self._firing.pop(alert.alert_id, None)
        self._resolved.pop(alert.alert_id, None)
        if alert.status != "resolved":
            self._firing[alert.alert_id] = alert
            return
        self._resolved[alert.alert_id] = alert
        if len(self._resolved) > self._resolved_kept:
            del self._resolved[next(iter(self._resolved))]
