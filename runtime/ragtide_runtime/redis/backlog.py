"""The backlog of a partition: entries that wait for workers and the aggregator, their age, and stream lengths."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis

from .keys import LABEL_GROUP, RECORD_GROUP, Streams
from .scripts import Argument, Run, run_together

COUNT_CAP: Final = 1000
"""Most entries that the script counts itself, where Redis does not know their number."""

SEEN_MS: Final = 60_000
"""A worker counts as present for this many milliseconds after its last read."""

BACKLOG_SCRIPT: Final = """
-- KEYS: interactions, metrics, feedback, estimates, alerts, dead letters, checkpoint, dropped, lease.
-- ARGV: group, cap, ms since its last read for which a worker is there, group of the recorder.
-- Only reads, and counts here, so that no payload travels.
local function fields(flat)
    local found = {}
    for i = 1, #flat, 2 do
        found[flat[i]] = flat[i + 1]
    end
    return found
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function ms(id)
    return tonumber(string.match(id, '^%d+'))
end
local function first_after(stream, id)
    local found = redis.call('XRANGE', stream, '(' .. id, '+', 'COUNT', 1)
    return found[1] and ms(found[1][1])
end
local function count_after(stream, id)
    return #redis.call('XRANGE', stream, '(' .. id, '+', 'COUNT', ARGV[2])
end
local function age(first)
    return first and math.max(now - first, 0) or 0
end

local lengths = {}
for i = 1, 6 do
    lengths[i] = redis.call('XLEN', KEYS[i])
end
local waiting, pending, workers, oldest = lengths[1], 0, 0, first_after(KEYS[1], '0-0')
if redis.call('EXISTS', KEYS[1]) == 1 then
    for _, flat in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
        local group = fields(flat)
        if group['name'] == ARGV[1] then
            local last = group['last-delivered-id']
            pending = group['pending']
            -- No lag before Redis 7.0, and none after entries were deleted.
            waiting = pending + (group['lag'] or count_after(KEYS[1], last))
            oldest = first_after(KEYS[1], last)
            if pending > 0 then
                local taken = ms(redis.call('XPENDING', KEYS[1], ARGV[1])[2])
                oldest = oldest and math.min(oldest, taken) or taken
            end
            for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
                if fields(consumer)['idle'] < tonumber(ARGV[3]) then
                    workers = workers + 1
                end
            end
        end
    end
end
local unrecorded = -1
for _, stream in ipairs({KEYS[1], KEYS[2], KEYS[3], KEYS[5]}) do
    for _, flat in ipairs(redis.call('EXISTS', stream) == 1 and redis.call('XINFO', 'GROUPS', stream) or {}) do
        local group = fields(flat)
        if group['name'] == ARGV[4] then
            unrecorded = math.max(unrecorded, age(first_after(stream, group['last-delivered-id'])))
        end
    end
end
local position = redis.call('HGET', KEYS[7], 'position') or '0-0'
return cjson.encode({
    lengths = lengths,
    waiting = waiting,
    pending = pending,
    oldest_ms = age(oldest),
    events_waiting = count_after(KEYS[2], position),
    events_oldest_ms = age(first_after(KEYS[2], position)),
    workers = workers,
    unrecorded_ms = unrecorded,
    owned = redis.call('EXISTS', KEYS[9]),
    dropped = fields(redis.call('HGETALL', KEYS[8])),
})
"""

LENGTHS: Final = ("interactions", "metrics", "feedback", "estimates", "alerts", "dead_letters")
"""Streams of a partition, in the order of the script's keys."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The backlog of one partition; all fields are read at the same moment."""

    lengths: dict[str, int]
    """Entries in each stream."""
    waiting: int
    """Interactions no worker has finished; those not yet taken are counted to at most `COUNT_CAP` where Redis does not
    know how many they are: before 7.0, and after entries were deleted."""
    pending: int
    """Of these, those that a worker has taken."""
    oldest_s: float
    """Age in seconds of the oldest of the waiting interactions, by Redis's clock; 0 if there is none."""
    events_waiting: int
    """Metric events that are in no checkpoint yet, counted to at most `COUNT_CAP`."""
    events_oldest_s: float
    """Age in seconds of the oldest of these metric events; 0 if there is none."""
    workers: int
    """Workers that have read within the last minute."""
    unrecorded_s: float | None
    """Age in seconds of the oldest entry that waits to be recorded, over all streams; 0 if there is none, None if no
    recorder has ever run."""
    owned: bool
    """Whether an aggregator holds the lease."""
    dropped: dict[str, int]
    """Number of dropped interactions by reason."""


async def read_backlogs(redis: Redis, partitions: Sequence[Streams]) -> list[Backlog]:
    """Return the backlogs of partitions, all in one round trip.

    Raises:
        redis.RedisError: Redis failed.
    """
    script = redis.register_script(BACKLOG_SCRIPT)
    arguments: list[Argument] = [LABEL_GROUP, COUNT_CAP, SEEN_MS, RECORD_GROUP]
    replies = await run_together(redis, [Run(script, _keys(streams), arguments) for streams in partitions])
    return [_backlog(json.loads(reply)) for reply in replies]


def _keys(streams: Streams) -> list[str]:
    return [
        streams.interactions,
        streams.metrics,
        streams.feedback,
        streams.estimates,
        streams.alerts,
        streams.dead_letters,
        streams.checkpoint,
        streams.dropped,
        streams.lease,
    ]


def _backlog(found: Any) -> Backlog:
    return Backlog(
        lengths=dict(zip(LENGTHS, found["lengths"], strict=True)),
        waiting=int(found["waiting"]),
        pending=int(found["pending"]),
        oldest_s=found["oldest_ms"] / 1000,
        events_waiting=int(found["events_waiting"]),
        events_oldest_s=found["events_oldest_ms"] / 1000,
        workers=int(found["workers"]),
        unrecorded_s=found["unrecorded_ms"] / 1000 if found["unrecorded_ms"] >= 0 else None,
        owned=bool(found["owned"]),
        dropped={why: int(count) for why, count in found["dropped"].items()},
    )
