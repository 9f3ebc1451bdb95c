-- uses: entry_ids, fields
-- Whether an entry that was read is gone because Redis lost the end of the stream. An entry before the first one of the
-- stream was trimmed, not lost.
local function lost(stream, id)
    if #redis.call('XRANGE', stream, id, id) > 0 then
        return false
    end
    if redis.call('EXISTS', stream) == 0 then
        return true
    end
    if before(by_name(redis.call('XINFO', 'STREAM', stream))['last-generated-id'], id) then
        return true
    end
    local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)
    return #first > 0 and before(first[1][1], id)
end
