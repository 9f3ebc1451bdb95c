-- Reads the backlog of a partition (backlog.py). It counts on the server, so that no payload travels.
-- uses: entry_ids, fields, groups, time
-- KEYS: interactions, metrics, feedback, estimates, alerts, dead letters, checkpoint, dropped, lease.
-- ARGV: group of the workers, cap of counts, ms since its last read for which a worker is present, group of the
--       recorder.
-- reply: a table in JSON. Only reads.
local now = now_ms()
local function first_after(stream, id)
    local found = redis.call('XRANGE', stream, '(' .. id, '+', 'COUNT', 1)
    return found[1] and milliseconds(found[1][1])
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
local group = groups_of(KEYS[1])[ARGV[1]]
if group then
    local last = group['last-delivered-id']
    pending = group['pending']
    -- Redis knows no lag before 7.0, and none after entries were deleted.
    waiting = pending + (group['lag'] or count_after(KEYS[1], last))
    oldest = first_after(KEYS[1], last)
    if pending > 0 then
        local taken = milliseconds(redis.call('XPENDING', KEYS[1], ARGV[1])[2])
        oldest = oldest and math.min(oldest, taken) or taken
    end
    for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
        if by_name(consumer)['idle'] < tonumber(ARGV[3]) then
            workers = workers + 1
        end
    end
end
local unrecorded = -1
for _, stream in ipairs({KEYS[1], KEYS[2], KEYS[3], KEYS[5]}) do
    local recorder = groups_of(stream)[ARGV[4]]
    if recorder then
        unrecorded = math.max(unrecorded, age(first_after(stream, recorder['last-delivered-id'])))
    end
end
local position = redis.call('HGET', KEYS[7], CHECKPOINT_POSITION) or '0-0'
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
    dropped = by_name(redis.call('HGETALL', KEYS[8])),
})
