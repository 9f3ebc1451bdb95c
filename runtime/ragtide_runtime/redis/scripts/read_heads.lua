-- Reads the first bytes of fields of a checkpoint: the rest of a value is longer, and only its owner needs it
-- (reading/selected_fields.py).
-- KEYS: checkpoint. ARGV: number of bytes, three fields that are read whole, then the fields.
-- reply: the values of the three fields, then the beginnings of the others; nil for a field that does not exist.
local values = {}
for i = 2, #ARGV do
    local value = redis.call('HGET', KEYS[1], ARGV[i])
    values[i - 1] = value and i > 4 and string.sub(value, 1, ARGV[1]) or value
end
return values
