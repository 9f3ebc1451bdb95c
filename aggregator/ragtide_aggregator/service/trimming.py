"""Keeping a partition's streams small: what every reader is done with goes, and hard caps bound the rest.

Of interactions and metric events goes what is behind every consumer group (and behind the checkpoint); an entry that a
worker still holds stays, and so does every interaction until there are workers. Metric events stay a while longer,
because feedback that comes later is joined with them. Alerts above their cap stay until they are recorded, up to ten
times the cap. Interactions and dead letters have caps in bytes, too. What a hard cap takes that nobody had finished is
counted in the hash `dropped`.
"""

from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import LABEL_GROUP, RECORD_GROUP, Streams

ALERTS_HARD: Final = 10
"""How many times their cap alerts may be that wait to be recorded."""

SAMPLES: Final = 2000
"""Nodes of a stream whose size is looked at every second: less than a millisecond of Redis's time."""

HOUSE_SCRIPT: Final = """
-- KEYS: interactions, metrics, feedback, alerts, dead letters, dropped
-- ARGV: positions of the checkpoint (metrics, feedback), metric events to keep, caps of interactions, alerts and dead
--       letters, hard cap of alerts, groups of the workers and of the recorder, caps in bytes of interactions and dead
--       letters, nodes of a stream whose size is looked at
-- Returns the server's time in ms, the oldest interaction no worker has finished, the last metric event, and what was
-- dropped so far (why, how many, ...).
local function order(id)
    local ms, number = string.match(id, '(%d+)-(%d+)')
    return tonumber(ms), tonumber(number)
end
local function before(id, other)
    local ms, number = order(id)
    local other_ms, other_number = order(other)
    return ms < other_ms or (ms == other_ms and number < other_number)
end
local function following(id)
    local ms, number = string.match(id, '(%d+)-(%d+)')
    return ms .. '-' .. string.format('%.0f', tonumber(number) + 1)
end
local function groups(stream)
    local found = {}
    if redis.call('EXISTS', stream) == 1 then
        for _, group in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
            local of = {}
            for i = 1, #group, 2 do of[group[i]] = group[i + 1] end
            found[of['name']] = of
        end
    end
    return found
end
-- The first entry that a group has not finished.
local function first_of(stream, group)
    if group['pending'] > 0 then
        return redis.call('XPENDING', stream, group['name'])[2]
    end
    return following(group['last-delivered-id'])
end
-- The first entry that some group has not finished, or what was given if that is before it; nothing without groups.
local function unfinished(stream, floor)
    for _, group in pairs(groups(stream)) do
        local first = first_of(stream, group)
        if not floor or before(first, floor) then floor = first end
    end
    return floor
end
local function cap(stream, most, why)
    if redis.call('XLEN', stream) > tonumber(most) then
        local gone = redis.call('XTRIM', stream, 'MAXLEN', '=', most)
        if why and gone > 0 then redis.call('HINCRBY', KEYS[6], why, gone) end
    end
end
-- Entries of a stream above a cap in bytes go, the oldest first; the last one stays.
local function bytes_of(stream)
    return redis.call('MEMORY', 'USAGE', stream, 'SAMPLES', ARGV[12])
end
local function cap_bytes(stream, most, why)
    local length = redis.call('XLEN', stream)
    -- Sizes differ, so a round takes a tenth at most; if it takes more than ten, the rest waits for the next look.
    for _ = 1, 10 do
        local bytes = length > 1 and bytes_of(stream) or 0
        if bytes <= tonumber(most) then return end
        local keep = math.min(math.max(math.floor(length * most / bytes), math.floor(length * 0.9)), length - 1)
        redis.call('HINCRBY', KEYS[6], why, redis.call('XTRIM', stream, 'MAXLEN', '=', keep))
        length = keep
    end
end

local oldest = ''
local workers = groups(KEYS[1])[ARGV[8]]
-- Before the first worker nothing is finished, whatever others have done with it.
if workers then
    redis.call('XTRIM', KEYS[1], 'MINID', '=', unfinished(KEYS[1], nil))
end
cap(KEYS[1], ARGV[4], 'capped')
cap_bytes(KEYS[1], ARGV[10], 'capped')
local first = redis.call('XRANGE', KEYS[1], workers and first_of(KEYS[1], workers) or '-', '+', 'COUNT', 1)
if #first > 0 then oldest = first[1][1] end

local excess = redis.call('XLEN', KEYS[2]) - tonumber(ARGV[3])
if excess > 0 then
    redis.call('XTRIM', KEYS[2], 'MINID', '~', unfinished(KEYS[2], following(ARGV[1])), 'LIMIT', excess)
end
redis.call('XTRIM', KEYS[3], 'MINID', '=', unfinished(KEYS[3], following(ARGV[2])))
local recorder = groups(KEYS[4])[ARGV[9]]
local over = redis.call('XLEN', KEYS[4]) - tonumber(ARGV[5])
if recorder and over > 0 then
    local recorded = recorder['last-delivered-id']
    if #redis.call('XRANGE', KEYS[4], '-', recorded, 'COUNT', 1) > 0 then
        local last = redis.call('XRANGE', KEYS[4], '-', '+', 'COUNT', over)[over][1]
        redis.call('XTRIM', KEYS[4], 'MINID', '=', following(before(recorded, last) and recorded or last))
    end
    cap(KEYS[4], ARGV[7], 'alerts')
else
    cap(KEYS[4], ARGV[5], nil)
end
cap(KEYS[5], ARGV[6], 'dead_letters')
cap_bytes(KEYS[5], ARGV[11], 'dead_letters')

local time = redis.call('TIME')
local last = ''
if redis.call('EXISTS', KEYS[2]) == 1 then
    local info = redis.call('XINFO', 'STREAM', KEYS[2])
    for i = 1, #info, 2 do
        if info[i] == 'last-generated-id' then last = info[i + 1] end
    end
end
return {time[1] * 1000 + math.floor(time[2] / 1000), oldest, last, redis.call('HGETALL', KEYS[6])}
"""


@dataclass(frozen=True, slots=True)
class Caps:
    """How many entries, and how many bytes, streams may hold.

    Bytes are those that `MEMORY USAGE` tells: exact for a stream of up to `SAMPLES` nodes (of an entry or a few small
    ones), and beyond that taken from the size of its oldest `SAMPLES` nodes, which are the next to go.
    """

    metrics_keep: int = 100_000
    """Metric events kept behind the checkpoint."""
    interactions: int = 1_000_000
    alerts: int = 10_000
    dead_letters: int = 100_000
    interactions_bytes: int = 17_179_869_184
    dead_letters_bytes: int = 1_073_741_824


@dataclass(frozen=True, slots=True)
class Seen:
    """The findings of one look at a partition."""

    now_ms: int
    """Time of the Redis server."""
    oldest_waiting_ms: int | None
    """When the oldest interaction that no worker has finished was added; None if there is none."""
    last_scored_ms: int | None
    """When the last metric event was added; None before the first."""
    dropped: dict[str, int]
    """Entries that were dropped so far, by why."""


class House:
    """Keeps the streams of one partition."""

    def __init__(self, redis: Redis, streams: Streams, caps: Caps) -> None:
        self._streams = streams
        self._caps = caps
        self._script = redis.register_script(HOUSE_SCRIPT)

    async def keep(self, position: str, feedback_position: str) -> Seen:
        """Trim what everybody is done with, given the positions of the checkpoint, and return what was found.

        Raises:
            redis.RedisError: some or nothing may have been trimmed; doing it again later is enough.
        """
        streams, caps = self._streams, self._caps
        reply: list[Any] = await self._script(
            keys=[
                streams.interactions,
                streams.metrics,
                streams.feedback,
                streams.alerts,
                streams.dead_letters,
                streams.dropped,
            ],
            args=[
                position,
                feedback_position,
                caps.metrics_keep,
                caps.interactions,
                caps.alerts,
                caps.dead_letters,
                ALERTS_HARD * caps.alerts,
                LABEL_GROUP,
                RECORD_GROUP,
                caps.interactions_bytes,
                caps.dead_letters_bytes,
                SAMPLES,
            ],
        )
        now_ms, oldest, last, dropped = reply
        names = [name.decode() for name in dropped[::2]]
        counts = [int(count) for count in dropped[1::2]]
        return Seen(int(now_ms), _milliseconds(oldest), _milliseconds(last), dict(zip(names, counts, strict=True)))


def _milliseconds(entry_id: bytes) -> int | None:
    return int(entry_id.partition(b"-")[0]) or None if entry_id else None
