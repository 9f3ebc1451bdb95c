-- uses: awaiting, entry_ids, fields
-- The consumer groups of a stream, by name; none if there is no such stream.
local function groups_of(stream)
    local found = {}
    if redis.call('EXISTS', stream) == 1 then
        for _, flat in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
            local group = by_name(flat)
            found[group['name']] = group
        end
    end
    return found
end
-- The first entry that workers hold, the first that waits for an unavailable labeler, and the number of the latter. An
-- entry whose labeler has reached its spend limit is in the number only: it waits for the next period.
-- An entry that waits and that a cap has dropped is before the first entry of the stream, so it is not looked at.
local function held(stream, group)
    local pending = redis.call('XPENDING', stream, group)
    local first, awaiting, count = nil, nil, 0
    for _, consumer in ipairs(pending[4] or {}) do
        if is_awaiting(consumer[1]) then count = count + tonumber(consumer[2]) end
    end
    if count == 0 then return pending[2] or nil, nil, 0 end
    local oldest = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
    for _, consumer in ipairs(oldest and pending[4] or {}) do
        local found = redis.call('XPENDING', stream, group, oldest[1], '+', 1, consumer[1])[1]
        if found and is_awaiting(consumer[1]) then
            local is_first = not awaiting or before(found[1], awaiting)
            if is_first and not awaits_budget(consumer[1]) then awaiting = found[1] end
        elseif found and (not first or before(found[1], first)) then
            first = found[1]
        end
    end
    return first, awaiting, count
end
