-- uses: time
-- Known ids (known_ids.py): known_id finds the entry of an id, remember_id sets it, change_id moves it to another entry.
local WIDTH, DIGEST, MOST = 18, 10, 20

local function packed_id(entry)
    local ms, number = string.match(entry, '^(%d+)-(%d+)$')
    ms, number = tonumber(ms), tonumber(number)
    if ms < 281474976710656 and number < 65536 then
        return struct.pack('>I6I2', ms, number)
    end
end

-- Returns the group of an id, how many groups there are, and the largest power of two among 1 .. groups.
local function group_of(key, digest)
    local groups, half = redis.call('HLEN', key), 1
    while half * 2 <= groups do
        half = half * 2
    end
    local index = struct.unpack('>I4', digest) % (half * 2)
    if index >= groups then
        index = index - half
    end
    return index, groups, half
end

local function place_in(group, digest)
    local at = string.find(group, digest, 1, true)
    while at and (at - 1) % WIDTH > 0 do
        at = string.find(group, digest, at + 1, true)
    end
    return at
end

local function split_next(key, groups, half)
    local index, stays, goes = groups - half, {}, {}
    local group = redis.call('HGET', key, index) or ''
    for at = 1, #group, WIDTH do
        local one = string.sub(group, at, at + WIDTH - 1)
        table.insert(struct.unpack('>I4', one) % (half * 2) == index and stays or goes, one)
    end
    redis.call('HSET', key, index, table.concat(stays), groups, table.concat(goes))
end

-- Writes an id into a bucket; one that is there gets the new entry.
local function put_id(key, digest, packed, ttl)
    local index, groups, half = group_of(key, digest)
    if groups == 0 then
        redis.call('HSET', key, 0, digest .. packed)
    else
        local group = redis.call('HGET', key, index) or ''
        local at = place_in(group, digest)
        if at then
            group = string.sub(group, 1, at + DIGEST - 1) .. packed .. string.sub(group, at + WIDTH)
        else
            group = group .. digest .. packed
        end
        redis.call('HSET', key, index, group)
        if #group > MOST * WIDTH then
            split_next(key, groups, half)
        end
    end
    -- Never sooner than before: a bucket may hold ids of a longer window, from other settings.
    if redis.call('PTTL', key) < ttl then
        redis.call('PEXPIRE', key, ttl + 5)
    end
end

-- Returns the entry of an id, the latest if there are several, with its bucket, group and place; nil if it is unknown.
-- first: which of KEYS is the id's own; the buckets follow, if it has any.
local function known_id(first, digest)
    local own = redis.call('GET', KEYS[first])
    if own then
        return own
    end
    local ms, number, key, index, group, at = -1, -1, nil, nil, nil, nil
    for i = first + 1, math.min(first + KNOWN_BUCKETS, #KEYS) do
        local this, groups = group_of(KEYS[i], digest)
        local found = groups > 0 and redis.call('HGET', KEYS[i], this)
        local place = found and place_in(found, digest)
        if place then
            local its_ms, its_number = struct.unpack('>I6I2', found, place + DIGEST)
            if its_ms > ms or (its_ms == ms and its_number > number) then
                ms, number, key, index, group, at = its_ms, its_number, KEYS[i], this, found, place
            end
        end
    end
    return key and string.format('%.0f-%.0f', ms, number), key, index, group, at
end

local function remember_id(first, digest, entry, window)
    local packed = packed_id(entry)
    if not packed then
        redis.call('SET', KEYS[first], entry, 'PX', window)
        return
    end
    redis.call('DEL', KEYS[first])
    local now, span = now_ms(), math.max(math.ceil(window / 4), 1)
    local bucket = math.floor(now / span)
    put_id(KEYS[first + 1 + bucket % KNOWN_BUCKETS], digest, packed, (bucket + 1) * span + window - now)
end

-- Gives a known id another entry, for as long as it is known.
local function change_id(first, digest, before, after)
    local entry, key, index, group, at = known_id(first, digest)
    if entry ~= before then
        return
    end
    local packed = key and packed_id(after)
    if packed then
        group = string.sub(group, 1, at + DIGEST - 1) .. packed .. string.sub(group, at + WIDTH)
        redis.call('HSET', key, index, group)
    elseif key then
        redis.call('SET', KEYS[first], after, 'PX', redis.call('PTTL', key))
    else
        redis.call('SET', KEYS[first], after, 'KEEPTTL')
    end
end
