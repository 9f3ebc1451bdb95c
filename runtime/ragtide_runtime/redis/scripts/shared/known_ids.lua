-- uses: time
-- Known ids (known_ids.py): known_id finds the entry of an id, remember_id sets it, change_id moves it to another entry.
-- keys: of the id, from declared_keys or derived_keys.
local WIDTH, DIGEST, MOST = 18, 10, 20
-- What one call of a script has read of keys: entries of own keys, numbers of groups, milliseconds to live.
local own_entries, group_counts, times_to_live = {}, {}, {}
local shards = {}

-- The keys of an id, declared from KEYS[first] on: its own key first, then its buckets, if it has any.
local function declared_keys(first)
    local keys = {}
    for i = first, math.min(first + KNOWN_BUCKETS, #KEYS) do
        table.insert(keys, KEYS[i])
    end
    return keys
end

-- The same keys, from the beginnings of their names and the 16 bytes of the id's digest; read_derived_keys follows.
local HEXADECIMAL = string.rep('%02x', 16)
local hexadecimal = {}
local function derived_keys(own, buckets, digest)
    if not hexadecimal[digest] then
        hexadecimal[digest] = string.format(HEXADECIMAL, string.byte(digest, 1, 16))
    end
    local shard = buckets .. ':' .. string.byte(digest, 16) % KNOWN_SHARDS
    local keys = shards[shard] or {}
    if not shards[shard] then
        for bucket = 0, KNOWN_BUCKETS - 1 do
            keys[bucket + 1] = shard .. ':' .. bucket
        end
        shards[shard] = keys
    end
    return {own .. ':' .. hexadecimal[digest], unpack(keys)}
end

-- Reads the own keys of ids, and asks for all buckets of derived keys. Call it before the first write: while a slot
-- moves, Redis refuses it, as it refuses a script that declares keys of which some have moved.
local function read_derived_keys(own_keys)
    local keys = own_keys
    for _, buckets in pairs(shards) do
        for _, bucket in ipairs(buckets) do
            table.insert(keys, bucket)
        end
    end
    for i, entry in ipairs(redis.call('MGET', unpack(keys))) do
        own_entries[keys[i]] = entry
    end
end

local function own_entry(key)
    if own_entries[key] == nil then
        own_entries[key] = redis.call('GET', key)
    end
    return own_entries[key]
end

local function packed_id(entry)
    local ms, number = string.match(entry, '^(%d+)-(%d+)$')
    ms, number = tonumber(ms), tonumber(number)
    if ms < 281474976710656 and number < 65536 then
        return struct.pack('>I6I2', ms, number)
    end
end

-- Returns the group of an id, how many groups there are, and the largest power of two among 1 .. groups.
local function group_of(key, digest)
    local groups, half = group_counts[key] or redis.call('HLEN', key), 1
    group_counts[key] = groups
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
    group_counts[key] = groups + 1
end

-- Writes an id into a bucket; one that is there gets the new entry.
local function put_id(key, digest, packed, ttl)
    local index, groups, half = group_of(key, digest)
    if groups == 0 then
        redis.call('HSET', key, 0, digest .. packed)
        group_counts[key] = 1
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
    local left = times_to_live[key] or redis.call('PTTL', key)
    if left < ttl then
        left = ttl + 5
        redis.call('PEXPIRE', key, left)
    end
    times_to_live[key] = left
end

-- Returns the entry of an id, the latest if there are several, with its bucket, group and place; nil if it is unknown.
local function known_id(keys, digest)
    local own = own_entry(keys[1])
    if own then
        return own
    end
    local ms, number, key, index, group, at = -1, -1, nil, nil, nil, nil
    for i = 2, #keys do
        local this, groups = group_of(keys[i], digest)
        local found = groups > 0 and redis.call('HGET', keys[i], this)
        local place = found and place_in(found, digest)
        if place then
            local its_ms, its_number = struct.unpack('>I6I2', found, place + DIGEST)
            if its_ms > ms or (its_ms == ms and its_number > number) then
                ms, number, key, index, group, at = its_ms, its_number, keys[i], this, found, place
            end
        end
    end
    return key and string.format('%.0f-%.0f', ms, number), key, index, group, at
end

local function remember_id(keys, digest, entry, window)
    local packed = packed_id(entry)
    if not packed then
        redis.call('SET', keys[1], entry, 'PX', window)
        own_entries[keys[1]] = entry
        return
    end
    if own_entry(keys[1]) then
        redis.call('DEL', keys[1])
        own_entries[keys[1]] = false
    end
    local now, span = now_ms(), math.max(math.ceil(window / 4), 1)
    local bucket = math.floor(now / span)
    put_id(keys[2 + bucket % KNOWN_BUCKETS], digest, packed, (bucket + 1) * span + window - now)
end

-- Gives a known id another entry, for as long as it is known.
local function change_id(keys, digest, before, after)
    local entry, key, index, group, at = known_id(keys, digest)
    if entry ~= before then
        return
    end
    local packed = key and packed_id(after)
    if packed then
        group = string.sub(group, 1, at + DIGEST - 1) .. packed .. string.sub(group, at + WIDTH)
        redis.call('HSET', key, index, group)
    elseif key then
        redis.call('SET', keys[1], after, 'PX', redis.call('PTTL', key))
    else
        redis.call('SET', keys[1], after, 'KEEPTTL')
    end
end
