-- uses: awaiting, entry_ids, groups, time
-- The time before which every entry that came is finished. What waits for an unavailable labeler counts if it may be a
-- turn of a session: the labeler may be away for days, and other answers keep no session open. Without a group nothing is
-- finished.
local function scored_until(stream, name)
    local group, time = groups_of(stream)[name], now_ms()
    for _, consumer in ipairs(group and group['pending'] > 0 and redis.call('XPENDING', stream, name)[4] or {}) do
        if not is_awaiting(consumer[1]) or string.sub(consumer[1], 1, #AWAITING_TURN) == AWAITING_TURN then
            local oldest = redis.call('XPENDING', stream, name, '-', '+', 1, consumer[1])[1]
            if oldest then time = math.min(time, milliseconds(oldest[1])) end
        end
    end
    local from = group and following(group['last-delivered-id']) or '-'
    local next = redis.call('XRANGE', stream, from, '+', 'COUNT', 1)[1]
    return next and math.min(time, milliseconds(next[1])) or time
end
