-- Trims the streams of a partition behind their readers, and down to their caps (service/trimming.py).
-- uses: entry_ids, fields, groups, scored_until, time
-- KEYS: interactions, metrics, feedback, alerts, dead letters, dropped, finished entries, deliveries,
--       rejected entries, sentinels.
-- ARGV: positions of the checkpoint (metrics, feedback), metric events to keep, caps of interactions, alerts and dead
--       letters, hard cap of alerts, group of the workers, caps in bytes of interactions and dead letters, nodes of a
--       stream whose size is looked at.
-- reply: the server's time in ms, the time since which the oldest unfinished interaction waits, the last metric event
--        of traffic, the numbers of dropped entries (reason, number, ...), what other clients did to the interactions since the
--        last call (field of DeliveriesField, number, ...), the oldest interaction that waits for the labeler of a
--        sample, which the second of these leaves out, unless it waits for money, and the time in ms before which every
--        interaction that came is finished. Safe to repeat.

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

-- The rest of this file is about the interactions. Only finished entries leave their stream, so that an entry which left
-- the group unfinished (XACK, XGROUP SETID, XGROUP DELCONSUMER of another client) stays, is found, and is delivered again.

local now = now_ms()
local seen = by_name(redis.call('HGETALL', KEYS[8]))
local changes = {}
local function count(what, number)
    if number > 0 then
        redis.call('HINCRBY', KEYS[8], what, number)
        redis.call('HSET', KEYS[8], DELIVERIES_AT, now)
        table.insert(changes, what)
        table.insert(changes, number)
    end
end
local function note(...)
    redis.call('HSET', KEYS[8], ...)
end
local function doubt(id)
    if not seen[DELIVERIES_DOUBTFUL] or before(seen[DELIVERIES_DOUBTFUL], id) then
        seen[DELIVERIES_DOUBTFUL] = id
        note(DELIVERIES_DOUBTFUL, id)
    end
end
local stream = redis.call('EXISTS', KEYS[1]) == 1 and by_name(redis.call('XINFO', 'STREAM', KEYS[1]))
local last_id = stream and stream['last-generated-id'] or '0-0'
-- Returns how many entries have ever left the stream; Redis knows it since 7.0.
local function gone_by_now()
    return stream and stream['entries-added'] and stream['entries-added'] - redis.call('XLEN', KEYS[1])
end

-- Counts what other clients deleted since the last call: the whole stream, or entries of it.
local function count_deleted()
    if seen[DELIVERIES_LAST] and before(last_id, seen[DELIVERIES_LAST]) then
        count(DELIVERIES_REPLACED, 1)
        local waited = tonumber(seen[DELIVERIES_WAITING] or 0)
        if waited > 0 then redis.call('HINCRBY', KEYS[6], 'deleted', waited) end
        redis.call('ZREMRANGEBYSCORE', KEYS[7], '(' .. string.match(last_id, '^%d+'), '+inf')
        doubt(seen[DELIVERIES_LAST])
    elseif gone_by_now() and seen[DELIVERIES_GONE] then
        count(DELIVERIES_DELETED, gone_by_now() - tonumber(seen[DELIVERIES_GONE]))
    end
end

-- Takes finished entries out of the stream that no other group still needs; at most ten thousand, the next call
-- continues.
local function trim_finished()
    local floor = nil
    for name, group in pairs(groups_of(KEYS[1])) do
        local first = name ~= ARGV[8] and first_of(KEYS[1], group)
        if first and (not floor or before(first, floor)) then floor = first end
    end
    local most = floor and string.match(floor, '^%d+') or '+inf'
    for _ = 1, 10 do
        local found = redis.call('ZRANGEBYSCORE', KEYS[7], '-inf', most, 'LIMIT', 0, 1000)
        local ids = {}
        for _, id in ipairs(found) do
            if not floor or before(id, floor) then table.insert(ids, id) end
        end
        if #ids == 0 then return end
        redis.call('XDEL', KEYS[1], unpack(ids))
        redis.call('ZREM', KEYS[7], unpack(ids))
        -- Members of equal times are in the order of their texts, so the last one need not be the largest.
        doubt(string.match(ids[#ids], '^%d+') .. '-18446744073709551615')
        if #found < 1000 then return end
    end
end

-- The group never stands before a finished entry, unless it was lost or set back. It moves on, so that finished entries
-- are not labeled again; unfinished ones before this position are delivered again below.
local function move_on(group)
    local last = redis.call('ZREVRANGE', KEYS[7], 0, 0)[1]
    if not last or not before(group['last-delivered-id'], last) then return group end
    redis.call('XGROUP', 'SETID', KEYS[1], ARGV[8], last)
    count(DELIVERIES_SET_BACK, 1)
    return groups_of(KEYS[1])[ARGV[8]]
end

-- Delivers entries again that the group has passed and that are neither finished nor held by a consumer. The search
-- looks at a mebibyte or so of the stream, and the next call continues.
local function rescue(group)
    local from, bytes, rescued = seen[DELIVERIES_SCANNED] or '', 0, 0
    local last = group['last-delivered-id']
    while bytes < 1048576 do
        local found = redis.call('XRANGE', KEYS[1], from == '' and '-' or '(' .. from, last, 'COUNT', 8)
        for _, entry in ipairs(found) do
            local id = entry[1]
            for _, text in ipairs(entry[2]) do bytes = bytes + #text end
            bytes, from = bytes + 100, id
            if not redis.call('ZSCORE', KEYS[7], id)
                and #redis.call('XPENDING', KEYS[1], ARGV[8], id, id, 1) == 0 then
                doubt(id)
                -- Ten days of idleness, so that a worker takes it over at once.
                redis.call('XCLAIM', KEYS[1], ARGV[8], RESCUER, 0, id, 'IDLE', 864000000, 'RETRYCOUNT', 0,
                    'FORCE', 'JUSTID')
                rescued = rescued + 1
            end
        end
        if #found < 8 then
            from = ''
            break
        end
    end
    note(DELIVERIES_SCANNED, from)
    count(DELIVERIES_RESCUED, rescued)
end

local workers = groups_of(KEYS[1])[ARGV[8]]
count_deleted()
-- Before the first worker no interaction is finished, whatever other groups have read.
if workers then
    workers = move_on(workers)
    trim_finished()
end
cap(KEYS[1], ARGV[4], 'capped')
cap_bytes(KEYS[1], ARGV[9], 'capped')
local waiting = redis.call('XLEN', KEYS[1])
if workers and waiting > 0 then
    waiting = math.max(waiting - redis.call('ZCARD', KEYS[7]), 0)
    -- Redis knows no lag before 7.0; then only that of a group at the end of the stream is known.
    local lag = groups_of(KEYS[1])[ARGV[8]]['lag'] or (not before(workers['last-delivered-id'], last_id) and 0)
    if not lag or waiting > workers['pending'] + lag then
        rescue(workers)
        workers = groups_of(KEYS[1])[ARGV[8]]
    end
end
-- The first entry that is neither finished nor waits for the labeler of a sample.
local from, awaiting = '-', nil
if workers then
    local first = nil
    first, awaiting = held(KEYS[1], ARGV[8])
    from = first or following(workers['last-delivered-id'])
end
local first = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 1)[1]
local oldest = ''
if first then
    -- The time in an id is wrong if the clock of Redis has gone back: an entry waits at least since it was the oldest.
    local since = first[1] == seen[DELIVERIES_OLDEST] and tonumber(seen[DELIVERIES_OLDEST_SINCE]) or now
    oldest = math.min(milliseconds(first[1]), since)
    note(DELIVERIES_OLDEST, first[1], DELIVERIES_OLDEST_SINCE, string.format('%.0f', since))
end
note(DELIVERIES_LAST, last_id, DELIVERIES_WAITING, waiting, DELIVERIES_GONE, gone_by_now() or 0)

local excess = redis.call('XLEN', KEYS[2]) - tonumber(ARGV[3])
if excess > 0 then
    redis.call('XTRIM', KEYS[2], 'MINID', '~', unfinished(KEYS[2], following(ARGV[1])), 'LIMIT', excess)
end
redis.call('XTRIM', KEYS[3], 'MINID', '=', unfinished(KEYS[3], following(ARGV[2])))
trim_alerts(KEYS[4], tonumber(ARGV[5]), tonumber(ARGV[7]))
cap(KEYS[5], ARGV[6], 'dead_letters')
cap_bytes(KEYS[5], ARGV[10], 'dead_letters')
redis.call('ZREMRANGEBYRANK', KEYS[9], 0, -ARGV[6] - 1)

local last = ''
if redis.call('EXISTS', KEYS[2]) == 1 then
    last = by_name(redis.call('XINFO', 'STREAM', KEYS[2]))['last-generated-id']
    -- Answers to sentinels are no traffic.
    local sentinel = redis.call('HMGET', KEYS[10], SENTINEL_EVENT, SENTINEL_TRAFFIC)
    if sentinel[1] == last then last = sentinel[2] or '' end
end
return {now, oldest == '' and '' or string.format('%.0f', oldest), last, redis.call('HGETALL', KEYS[6]), changes,
    awaiting or '', string.format('%.0f', scored_until(KEYS[1], ARGV[8]))}
