-- Writes fields of a checkpoint, and lists the names of those that readers look for (checkpoint/name_index.py).
-- The field CHECKPOINT_NAMES holds the length of the list and the number of all fields. A change of the checkpoint or of
-- the list by anything else makes them wrong, and then the list counts for nothing.
local LISTED = {
    [CHECKPOINT_ESTIMATE] = true, [CHECKPOINT_CLUSTERS] = true, [CHECKPOINT_PAIR] = true,
    [CHECKPOINT_CLUSTER_SCOPE] = true, [CHECKPOINT_DECLARED] = true, [CHECKPOINT_RULE_STATE] = true,
    [CHECKPOINT_LEVEL] = true, [CHECKPOINT_HISTORY_SERIES] = true, [CHECKPOINT_RELEASE] = true,
}
-- Lua passes at most 7,999 values to a function.
local FIELDS_AT_ONCE = 1000

local function names_head(checkpoint, list)
    return redis.call('STRLEN', list) .. ' ' .. redis.call('HLEN', checkpoint)
end

-- Returns the table that new names join; false if the list is not known to be complete. With `anew` the list is set.
local function begin_names(checkpoint, list, anew)
    if redis.call('HLEN', checkpoint) == 0 then anew = '' end
    if anew then
        redis.call('SET', list, anew)
        return {}
    end
    return redis.call('HGET', checkpoint, CHECKPOINT_NAMES) == names_head(checkpoint, list) and {}
end

-- Writes the rows: each field and each value after its length, in 4 bytes.
local function write_rows(checkpoint, rows, adds, names)
    local plain, listed = {}, {}
    local function write(some)
        if #some == 0 then return {} end
        local added = redis.call('HSET', checkpoint, unpack(some))
        for i = 1, added > 0 and names and some == listed and #some or 0, 2 do names[#names + 1] = some[i] end
        return {}
    end
    local from, kind = 1, nil
    while from <= #rows do
        local field, value
        field, value, from = struct.unpack('>I4c0I4c0', rows, from)
        -- Rows of a kind follow each other.
        if not kind or string.sub(field, 1, #kind) ~= kind then kind = string.match(field, '^[^:]*:?') end
        local some = LISTED[kind] and listed or plain
        some[#some + 1], some[#some + 2] = field, value
        -- Of a step with new keys each listed field is written alone, so that it is known which are new.
        if some == listed and (adds or #some == FIELDS_AT_ONCE) then listed = write(listed) end
        if #plain == FIELDS_AT_ONCE then plain = write(plain) end
    end
    write(plain)
    write(listed)
end

local function end_names(checkpoint, list, names)
    if not names then
        redis.call('HDEL', checkpoint, CHECKPOINT_NAMES)
        return
    end
    if #names > 0 then redis.call('APPEND', list, table.concat(names, '\n') .. '\n') end
    redis.call('HSETNX', checkpoint, CHECKPOINT_NAMES, '')
    redis.call('HSET', checkpoint, CHECKPOINT_NAMES, names_head(checkpoint, list))
end
