-- Trims the streams of a partition behind their readers, and down to their caps (service/trimming.py).
-- uses: entry_ids, fields, groups, time
-- KEYS: interactions, metrics, feedback, alerts, dead letters, dropped.
-- ARGV: positions of the checkpoint (metrics, feedback), metric events to keep, caps of interactions, alerts and dead
--       letters, hard cap of alerts, group of the workers, caps in bytes of interactions and dead letters, nodes of a
--       stream whose size is looked at.
-- reply: the server's time in ms, the oldest unfinished interaction, the last metric event, and the numbers of dropped
--        entries (reason, number, ...). Safe to repeat.

-- The first entry that a group has not finished.
local function first_of(stream, group)
    if group['pending'] > 0 then
        return redis.call('XPENDING', stream, group['name'])[2]
    end
    return following(group['last-delivered-id'])
end
-- The first entry that some group has not finished, or the floor if that is before it; nothing without groups and floor.
local function unfinished(stream, floor)
    for _, group in pairs(groups_of(stream)) do
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
-- Trims a stream to a cap in bytes, the oldest entries first; the last one stays.
local function cap_bytes(stream, most, why)
    local length = redis.call('XLEN', stream)
    -- Sizes differ, so a round takes a tenth at most; if it takes more than ten, the rest waits for the next time.
    for _ = 1, 10 do
        local bytes = length > 1 and redis.call('MEMORY', 'USAGE', stream, 'SAMPLES', ARGV[11]) or 0
        if bytes <= tonumber(most) then return end
        local keep = math.min(math.max(math.floor(length * most / bytes), math.floor(length * 0.9)), length - 1)
        redis.call('HINCRBY', KEYS[6], why, redis.call('XTRIM', stream, 'MAXLEN', '=', keep))
        length = keep
    end
end
-- The first entry that a group has not finished among the entries from a given id on. A pending entry that a cap has
-- dropped is before that id, so it holds nothing.
local function first_from(stream, group, id)
    local pending = group['pending'] > 0 and redis.call('XPENDING', stream, group['name'], id, '+', 1) or {}
    return #pending > 0 and pending[1][1] or following(group['last-delivered-id'])
end
-- Returns how many of the entries, which follow each other, some group has not finished.
local function unfinished_among(stream, groups, entries)
    local taken, count = {}, 0
    for _, group in pairs(groups) do
        local first, last = entries[1][1], entries[#entries][1]
        local pending = group['pending'] > 0 and redis.call('XPENDING', stream, group['name'], first, last, #entries) or {}
        for _, one in ipairs(pending) do taken[one[1]] = true end
    end
    for _, entry in ipairs(entries) do
        local open = taken[entry[1]] or false
        for _, group in pairs(groups) do
            open = open or before(group['last-delivered-id'], entry[1])
        end
        if open then count = count + 1 end
    end
    return count
end
-- Trims a stream to a cap, but an entry that some group has not finished only above the hard cap. A call takes at most
-- ten thousand entries; the next call continues. Only unfinished entries are counted as dropped.
local function trim_alerts(stream, most, hard)
    local groups = groups_of(stream)
    if not next(groups) then return cap(stream, most, nil) end
    for _ = 1, 10 do
        local length = redis.call('XLEN', stream)
        if length <= most then return end
        local oldest, floor = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1][1], nil
        for _, group in pairs(groups) do
            local first = first_from(stream, group, oldest)
            if not floor or before(first, floor) then floor = first end
        end
        local gone = #redis.call('XRANGE', stream, '-', '(' .. floor, 'COUNT', math.min(length - most, 1000))
        if gone == 0 then
            if length <= hard then return end
            local entries = redis.call('XRANGE', stream, '-', '+', 'COUNT', math.min(length - hard, 1000))
            gone = #entries
            redis.call('HINCRBY', KEYS[6], 'alerts', unfinished_among(stream, groups, entries))
        end
        redis.call('XTRIM', stream, 'MAXLEN', '=', length - gone)
    end
end

local oldest = ''
local workers = groups_of(KEYS[1])[ARGV[8]]
-- Before the first worker no interaction is finished, whatever other groups have read.
if workers then
    redis.call('XTRIM', KEYS[1], 'MINID', '=', unfinished(KEYS[1], nil))
end
cap(KEYS[1], ARGV[4], 'capped')
cap_bytes(KEYS[1], ARGV[9], 'capped')
local first = redis.call('XRANGE', KEYS[1], workers and first_of(KEYS[1], workers) or '-', '+', 'COUNT', 1)
if #first > 0 then oldest = first[1][1] end

local excess = redis.call('XLEN', KEYS[2]) - tonumber(ARGV[3])
if excess > 0 then
    redis.call('XTRIM', KEYS[2], 'MINID', '~', unfinished(KEYS[2], following(ARGV[1])), 'LIMIT', excess)
end
redis.call('XTRIM', KEYS[3], 'MINID', '=', unfinished(KEYS[3], following(ARGV[2])))
trim_alerts(KEYS[4], tonumber(ARGV[5]), tonumber(ARGV[7]))
cap(KEYS[5], ARGV[6], 'dead_letters')
cap_bytes(KEYS[5], ARGV[10], 'dead_letters')

local last = ''
if redis.call('EXISTS', KEYS[2]) == 1 then
    last = by_name(redis.call('XINFO', 'STREAM', KEYS[2]))['last-generated-id']
end
return {now_ms(), oldest, last, redis.call('HGETALL', KEYS[6])}
