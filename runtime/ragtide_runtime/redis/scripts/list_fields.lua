-- Lists names of fields of a checkpoint, some at a time; their values stay in Redis (reading/field_names.py).
-- KEYS: checkpoint. ARGV: cursor, about how many fields to look at, then the kinds of the wanted names (their
--       beginnings up to the first colon).
-- reply: the next cursor, then the names. Only reads.
local found = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local kinds, names = {}, {found[1]}
for i = 3, #ARGV do kinds[ARGV[i]] = true end
for i = 1, #found[2], 2 do
    local name = found[2][i]
    if kinds[string.match(name, '^[^:]*:')] then names[#names + 1] = name end
end
return names
