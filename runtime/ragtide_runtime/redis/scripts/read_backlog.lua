-- Reads the backlog of a partition (backlog.py). It counts on the server, so that no payload travels.
-- uses: awaiting, entry_ids, fields, groups, time
-- KEYS: interactions, metrics, feedback, estimates, alerts, dead letters, checkpoint, dropped, lease, deliveries.
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
-- The most milliseconds by which the last id of a stream is ahead of the clock.
local ahead = 0
for i = 1, 6 do
    local last = redis.call('XREVRANGE', KEYS[i], '+', '-', 'COUNT', 1)[1]
    last = last and last[1]
    if not last and redis.call('EXISTS', KEYS[i]) == 1 then
        last = by_name(redis.call('XINFO', 'STREAM', KEYS[i]))['last-generated-id']
    end
    if last then ahead = math.max(ahead, milliseconds(last) - now) end
end
local deliveries = by_name(redis.call('HGETALL', KEYS[10]))

local lengths = {}
for i = 1, 6 do
    lengths[i] = redis.call('XLEN', KEYS[i])
end
local seen = -1
local waiting, pending, workers, oldest = lengths[1], 0, 0, first_after(KEYS[1], '0-0')
local awaiting = 0
local group = groups_of(KEYS[1])[ARGV[1]]
if group then
    local last = group['last-delivered-id']
    pending = group['pending']
    -- Redis knows no lag before 7.0, and none after entries were deleted.
    waiting = pending + (group['lag'] or count_after(KEYS[1], last))
    oldest = first_after(KEYS[1], last)
    local first, _, count = held(KEYS[1], ARGV[1])
    pending, awaiting = pending - count, count
    if first then oldest = math.min(oldest or milliseconds(first), milliseconds(first)) end
    for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
        consumer = by_name(consumer)
        if consumer['idle'] < tonumber(ARGV[3]) and consumer['name'] ~= RESCUER
            and not is_awaiting(consumer['name']) then
            workers = workers + 1
            if seen < 0 or consumer['idle'] < seen then seen = consumer['idle'] end
        end
    end
end
-- The time in an id is wrong if the clock has gone back; the last trimming knows since when an entry was the oldest.
local waiting_since = oldest
if oldest and oldest > now and deliveries[DELIVERIES_OLDEST] and milliseconds(deliveries[DELIVERIES_OLDEST]) == oldest then
    waiting_since = tonumber(deliveries[DELIVERIES_OLDEST_SINCE])
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
    awaiting = awaiting,
    oldest_ms = age(waiting_since),
    ahead_ms = ahead,
    events_waiting = count_after(KEYS[2], position),
    events_oldest_ms = age(first_after(KEYS[2], position)),
    workers = workers,
    seen_ms = seen,
    unrecorded_ms = unrecorded,
    owned = redis.call('EXISTS', KEYS[9]),
    dropped = by_name(redis.call('HGETALL', KEYS[8])),
    deliveries = deliveries,
})
