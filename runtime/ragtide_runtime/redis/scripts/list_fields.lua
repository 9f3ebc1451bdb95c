-- Lists names of fields of a checkpoint, some at a time; their values stay in Redis (reading/field_names.py).
-- KEYS: checkpoint. ARGV: cursor, about how many fields to look at, a pattern of the wanted names, then their kinds
--       (their beginnings up to the first colon).
-- reply: the next cursor, then the names. Only reads.
-- Servers before Redis 7.4 and Valkey 8 cannot leave out the values.
local found, step = redis.pcall('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2], 'MATCH', ARGV[3], 'NOVALUES'), 1
if found.err then found, step = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2], 'MATCH', ARGV[3]), 2 end
local kinds, names = {}, {found[1]}
for i = 4, #ARGV do kinds[ARGV[i]] = true end
for i = 1, #found[2], step do
    local name = found[2][i]
    if kinds[string.match(name, '^[^:]*:')] then names[#names + 1] = name end
end
return names
