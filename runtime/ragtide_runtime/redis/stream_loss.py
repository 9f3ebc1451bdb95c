"""A check whether Redis has lost the end of a stream; every script that must not count lost entries includes it."""

from typing import Final

LOST_LUA: Final = """
-- lost(stream, id): whether an entry that was read is gone because the stream's end was lost. What is before the
-- stream's first entry was trimmed, not lost.
local function order(id)
    local ms, number = string.match(id, '(%d+)-(%d+)')
    return tonumber(ms), tonumber(number)
end
local function after(id, other)
    local ms, number = order(id)
    local other_ms, other_number = order(other)
    return ms > other_ms or (ms == other_ms and number > other_number)
end
local function lost(stream, id)
    if #redis.call('XRANGE', stream, id, id) > 0 then
        return false
    end
    if redis.call('EXISTS', stream) == 0 then
        return true
    end
    local info = redis.call('XINFO', 'STREAM', stream)
    for i = 1, #info, 2 do
        if info[i] == 'last-generated-id' and after(id, info[i + 1]) then
            return true
        end
    end
    local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)
    return #first > 0 and after(id, first[1][1])
end
"""
"""Lua: the function `lost`, and `order` and `after` of entry ids; to be put before a script."""
