-- uses: fields
-- The consumer groups of a stream, by name; none if there is no such stream.
local function groups_of(stream)
    local found = {}
    if redis.call('EXISTS', stream) == 1 then
        for _, flat in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
            local group = by_name(flat)
            found[group['name']] = group
        end
    end
    return found
end
