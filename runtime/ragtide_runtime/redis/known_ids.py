"""Known ids: the entry that owns an interaction id, and the entry of an interaction's metric event.

Both are looked up by a digest of 10 bytes and hold one entry id of 8 bytes. The structure is the same for both:

- An id belongs to one of 64 shards, by its digest. A shard has six buckets, which take turns: each is written for a
  quarter of the window, and expires as a whole when its last id is as old as the window. An id is therefore known for
  at least the window, and for a quarter longer at most. The keys never depend on a client's clock, so every script can
  declare all of them (Redis Cluster asks for that); the server's clock says which bucket is written.
- A bucket is a hash whose fields are groups of about a dozen ids, packed into one string of 18 bytes an id. It grows by
  linear hashing: with G groups, 2^k <= G < 2^(k+1), an id is in the group of its hash modulo 2^(k+1), or modulo 2^k if
  there is no such group yet. A group that became too long makes the next group in turn split in two.

An entry id that does not fit into 8 bytes (48 bits of time, 16 bits of number) has a key of its own, the first of the
keys of an interaction. Earlier releases kept every id like that; those keys count until they expire.

Two ids of the same digest and shard (86 bits) would be taken for one. With 57 million known ids (586 a second for a day
and its eighth) a publication meets a foreign one with probability 7e-19: once in 70 million years at that rate.
"""

from typing import Final

KNOWN_IDS: Final = """
local WIDTH, DIGEST, MOST, BUCKETS = 18, 10, 20, 6

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
    for i = first + 1, math.min(first + BUCKETS, #KEYS) do
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
    local time = redis.call('TIME')
    local now, span = time[1] * 1000 + math.floor(time[2] / 1000), math.max(math.ceil(window / 4), 1)
    local bucket = math.floor(now / span)
    put_id(KEYS[first + 1 + bucket % BUCKETS], digest, packed, (bucket + 1) * span + window - now)
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
"""
"""Functions in Lua; a script that uses them begins with this text. `Streams.owner_keys` and `event_keys` name keys."""

FIND_SCRIPT: Final = (
    KNOWN_IDS
    + """
-- KEYS: of the id. ARGV: its digest. Returns its entry, or nothing.
return (known_id(1, ARGV[1])) or false
"""
)

REMEMBER_SCRIPT: Final = (
    KNOWN_IDS
    + """
-- KEYS: of the id. ARGV: its digest, entry, window in ms.
remember_id(1, ARGV[1], ARGV[2], tonumber(ARGV[3]))
return 1
"""
)

COPY_SCRIPT: Final = (
    KNOWN_IDS
    + """
-- KEYS: a bucket. ARGV: ms for which it is kept at least, groups of ids. What is there already stays.
for i = 2, #ARGV do
    for at = 1, #ARGV[i], WIDTH do
        local digest = string.sub(ARGV[i], at, at + DIGEST - 1)
        local index, groups = group_of(KEYS[1], digest)
        if groups == 0 or not place_in(redis.call('HGET', KEYS[1], index) or '', digest) then
            put_id(KEYS[1], digest, string.sub(ARGV[i], at + DIGEST, at + WIDTH - 1), tonumber(ARGV[1]))
        end
    end
end
return 1
"""
)

WIDTH_BYTES: Final = 18
"""Bytes of an id in a group."""

DIGEST_BYTES: Final = 10


def without_entries(group: bytes) -> bytes:
    """Return a group whose ids are known without an entry, as `0-0`."""
    return b"".join(
        group[at : at + DIGEST_BYTES] + bytes(WIDTH_BYTES - DIGEST_BYTES) for at in range(0, len(group), WIDTH_BYTES)
    )
