-- Counts how many of the next entries of each stream are no more than so many bytes (log.py).
-- uses: groups
-- KEYS: streams. ARGV: most entries, most bytes, nodes to look at, a group or nothing, then the position in each stream
--       (without a group).
-- reply: the number of entries, 1 at least. Only reads.
local most = tonumber(ARGV[1])
for i, stream in ipairs(KEYS) do
    local usage = redis.call('MEMORY', 'USAGE', stream, 'SAMPLES', ARGV[3])
    if usage and usage > tonumber(ARGV[2]) then
        local at = ARGV[4 + i]
        if ARGV[4] ~= '' then
            local group = groups_of(stream)[ARGV[4]]
            at = group and group['last-delivered-id'] or '0-0'
        end
        local count, bytes, full = 0, 0, false
        while count < most and not full do
            -- Eight at a time while entries are small: Redis copies the entries, so never many large ones at once.
            local some = count > 0 and 8 * bytes / count < tonumber(ARGV[2]) and 8 or 1
            local found = redis.call('XRANGE', stream, '(' .. at, '+', 'COUNT', some)
            for _, entry in ipairs(found) do
                for _, text in ipairs(entry[2]) do bytes = bytes + #text end
                full = full or (count > 0 and bytes > tonumber(ARGV[2]))
                if not full then count, at = count + 1, entry[1] end
            end
            if #found < some and not full then count = most end
        end
        most = math.min(count, most)
    end
end
return most
