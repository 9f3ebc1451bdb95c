-- Appends entries to a stream, if its last entry is still the one that was read.
-- uses: entries
-- KEYS: stream. ARGV: id of the last entry that was read, models to append.
-- reply: 1, or 0 if another entry came in between: then nothing was appended.
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if (last[1] and last[1][1] or '0-0') ~= ARGV[1] then
    return 0
end
for i = 2, #ARGV do
    add_entry(KEYS[1], ARGV[i])
end
return 1
