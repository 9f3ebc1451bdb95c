-- Moves the recorder's groups behind recorded entries, which may then be trimmed.
-- KEYS: the recorder's lease, then streams. ARGV: token, group, then a position for each stream.
-- reply: 'held' or 'fenced'. Safe to repeat.
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
    return 'fenced'
end
for i = 2, #KEYS do
    redis.call('XGROUP', 'SETID', KEYS[i], ARGV[2], ARGV[i + 1])
end
return 'held'
