-- Reads fields of a checkpoint, whole or their first bytes: the rest of a long value only its owner needs
-- (reading/selected_fields.py).
-- KEYS: checkpoint. ARGV: number of bytes, or -1 for whole values; names of the fields, one a line: as one argument the
--       many names of a first look cost the client less; then three fields that are read whole.
-- reply: the values of the three fields, then the others; nil for a field that does not exist.
-- Lua passes at most 7,999 values to a function.
local FIELDS_AT_ONCE = 5000
local names = {}
for name in string.gmatch(ARGV[2], '[^\n]+') do names[#names + 1] = name end
local values, size = redis.call('HMGET', KEYS[1], ARGV[3], ARGV[4], ARGV[5]), tonumber(ARGV[1])
for from = 1, #names, FIELDS_AT_ONCE do
    local some = redis.call('HMGET', KEYS[1], unpack(names, from, math.min(from + FIELDS_AT_ONCE - 1, #names)))
    for i = 1, #some do
        values[from + i + 2] = some[i] and size >= 0 and string.sub(some[i], 1, size) or some[i]
    end
end
return values
