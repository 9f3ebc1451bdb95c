-- uses: entry_ids, time
-- Finishing an entry of the interactions. XACK alone does not prove that an entry is finished for the first time: the
-- group may have been lost or set back, and an entry may have been taken from it. The sorted set of finished entries
-- proves it for every entry of the stream: an entry leaves the stream and the set together (trim_streams.lua).

local function count_again(deliveries)
    redis.call('HINCRBY', KEYS[deliveries], DELIVERIES_AGAIN, 1)
    redis.call('HSET', KEYS[deliveries], DELIVERIES_AT, now_ms())
end

-- Acknowledges an entry, and returns whether it is finished for the first time.
-- finished, deliveries: which of KEYS they are.
local function finish(group, entry, finished, deliveries)
    local held = redis.call('XACK', KEYS[1], group, entry) == 1
    if redis.call('ZADD', KEYS[finished], string.match(entry, '^%d+'), entry) == 0 then
        if held then count_again(deliveries) end
        return false
    end
    -- An entry that no consumer holds was finished and trimmed, or somebody took it from the group: then it is here.
    if not held and #redis.call('XRANGE', KEYS[1], entry, entry) == 0 then
        redis.call('ZREM', KEYS[finished], entry)
        return false
    end
    return true
end
