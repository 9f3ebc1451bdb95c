-- uses: time
-- Specimens of a pipeline: keep_specimen stores one and makes room for it, drop_specimen deletes one.
-- KEYS from a place `first`: the specimen, its pipeline's order, sizes and names of lists, then the partition's
-- pipelines, usage and pinned specimens. A specimen that makes room has a key in the same slot; its id is known only here, so it is not among KEYS.
local SPECIMEN_BYTES, MOST_DROPPED, SPARE_MS = 300, 50, 60000

-- Returns the bytes of a specimen, and the number of lists that name it; nil if there is none.
local function specimen_size(first, digest)
    local found = redis.call('HGET', KEYS[first + 2], digest)
    if found then
        local bytes, lists = string.match(found, '^(%d+) (%d+)$')
        return tonumber(bytes), tonumber(lists)
    end
end

-- Deletes a specimen, unless an alert has pinned it; then no list names it any more.
local function drop_specimen(first, base, digest)
    local bytes = specimen_size(first, digest)
    if redis.call('HEXISTS', KEYS[first + 6], digest) == 1 then
        if bytes then
            redis.call('HSET', KEYS[first + 2], digest, bytes .. ' 0')
        end
        return
    end
    redis.call('DEL', base .. digest)
    redis.call('ZREM', KEYS[first + 1], digest)
    if bytes then
        redis.call('HDEL', KEYS[first + 2], digest)
        redis.call('HINCRBY', KEYS[first + 2], SPECIMEN_TOTAL, -bytes)
    end
end

-- Writes the bytes of a pipeline into the usage of the partition, which then agrees even if keys expired before.
local function settle_usage(first, pipeline)
    local bytes = tonumber(redis.call('HGET', KEYS[first + 2], SPECIMEN_TOTAL) or 0)
    local before = tonumber(redis.call('HGET', KEYS[first + 5], pipeline) or 0)
    redis.call('HINCRBY', KEYS[first + 5], SPECIMEN_TOTAL, bytes - before)
    if bytes > 0 then
        redis.call('HSET', KEYS[first + 5], pipeline, bytes)
    else
        redis.call('HDEL', KEYS[first + 5], pipeline)
    end
end

-- Takes pipelines off the usage whose specimens have all expired.
local function forget_pipelines(first, now)
    for _, pipeline in ipairs(redis.call('ZRANGEBYSCORE', KEYS[first + 4], '-inf', now, 'LIMIT', 0, MOST_DROPPED)) do
        local bytes = tonumber(redis.call('HGET', KEYS[first + 5], pipeline) or 0)
        redis.call('HINCRBY', KEYS[first + 5], SPECIMEN_TOTAL, -bytes)
        redis.call('HDEL', KEYS[first + 5], pipeline)
        redis.call('ZREM', KEYS[first + 4], pipeline)
    end
end

-- Returns the members that leave a list for one more member, none if it has room; nil if the new member is the least.
local function leaving(first, list, score, most)
    local found = redis.call('ZCARD', list)
    if found < most then
        return {}
    end
    if score == '' then -- by time: the oldest leave
        return redis.call('ZRANGE', list, 0, found - most)
    end
    local members, flat = {}, redis.call('ZRANGE', list, 0, -1, 'WITHSCORES')
    for i = 1, #flat, 2 do
        if redis.call('HEXISTS', KEYS[first + 2], flat[i]) == 1 then
            local expires = tonumber(redis.call('ZSCORE', KEYS[first + 1], flat[i]) or 0)
            table.insert(members, {flat[i], tonumber(flat[i + 1]), expires})
        else -- expired: it would be the worst for ever
            redis.call('ZREM', list, flat[i])
        end
    end
    -- The least bad leave, and of equal ones the oldest.
    table.sort(members, function(a, b)
        return a[2] < b[2] or (a[2] == b[2] and a[3] < b[3])
    end)
    local leave = {}
    for i = 1, #members - most + 1 do
        if members[i][2] > tonumber(score) then
            return nil
        end
        leave[i] = members[i][1]
    end
    return leave
end

local function leave_list(first, base, list, digest)
    redis.call('ZREM', list, digest)
    local bytes, lists = specimen_size(first, digest)
    if bytes and lists <= 1 then
        drop_specimen(first, base, digest)
    elseif bytes then
        redis.call('HSET', KEYS[first + 2], digest, bytes .. ' ' .. (lists - 1))
    end
end

-- Keeps a specimen if a list takes it. Its lists, as many as `lists`, are KEYS from first + 7.
-- ARGV from `at`: digest, base of the keys of specimens, payload, milliseconds to keep, most specimens of the pipeline,
-- most bytes of the pipeline and of the partition, pipeline, then for each list its name, the score (nothing for the
-- time) and most members.
-- Returns 'kept', 'unneeded' (no list takes it) or 'full' (it cannot have room). It drops at most 50 specimens.
local function keep_specimen(first, at, lists)
    local digest, base, payload, ttl = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
    local order, sizes, now = KEYS[first + 1], KEYS[first + 2], now_ms()
    if redis.call('HEXISTS', KEYS[first + 6], digest) == 1 then
        return 'unneeded' -- an alert names the earlier interaction with this id
    end
    for _, old in ipairs(redis.call('ZRANGEBYSCORE', order, '-inf', now, 'LIMIT', 0, MOST_DROPPED)) do
        drop_specimen(first, base, old)
    end
    drop_specimen(first, base, digest) -- an earlier interaction may have had the same id
    forget_pipelines(first, now)
    settle_usage(first, ARGV[at + 7])
    local wanted = {}
    for i = at + 8, at + 5 + 3 * lists, 3 do
        local list = KEYS[first + 7 + (i - at - 8) / 3]
        local leave = leaving(first, list, ARGV[i + 1], tonumber(ARGV[i + 2]))
        if leave then
            table.insert(wanted, {list, ARGV[i], ARGV[i + 1] == '' and now or ARGV[i + 1], leave})
        end
    end
    if #wanted == 0 then
        return 'unneeded'
    end
    local size, dropped = #payload + SPECIMEN_BYTES, 0
    local function over(most_count, most_bytes)
        local bytes = tonumber(redis.call('HGET', sizes, SPECIMEN_TOTAL) or 0)
        return math.max(redis.call('HLEN', sizes) - 1, 0) >= most_count or bytes + size > most_bytes
    end
    while over(tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])) do
        local oldest = redis.call('ZRANGE', order, 0, 0)[1]
        if not oldest or dropped == MOST_DROPPED then
            settle_usage(first, ARGV[at + 7])
            return 'full'
        end
        drop_specimen(first, base, oldest)
        dropped = dropped + 1
    end
    settle_usage(first, ARGV[at + 7])
    if tonumber(redis.call('HGET', KEYS[first + 5], SPECIMEN_TOTAL)) + size > tonumber(ARGV[at + 6]) then
        return 'full'
    end
    for _, one in ipairs(wanted) do
        for _, leaves in ipairs(one[4]) do
            leave_list(first, base, one[1], leaves)
        end
        redis.call('ZADD', one[1], one[3], digest)
        redis.call('PEXPIRE', one[1], ttl + SPARE_MS)
        redis.call('SADD', KEYS[first + 3], one[2])
    end
    redis.call('SET', KEYS[first], payload, 'PX', ttl)
    redis.call('HSET', sizes, digest, size .. ' ' .. #wanted)
    redis.call('HINCRBY', sizes, SPECIMEN_TOTAL, size)
    redis.call('ZADD', order, now + ttl, digest)
    redis.call('ZADD', KEYS[first + 4], now + ttl + SPARE_MS, ARGV[at + 7])
    for i = 1, 3 do
        redis.call('PEXPIRE', KEYS[first + i], ttl + SPARE_MS)
    end
    settle_usage(first, ARGV[at + 7])
    return 'kept'
end
