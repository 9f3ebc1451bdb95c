-- Makes entries look just delivered, as far as the consumer still holds them. XCLAIM alone would also take back entries
-- that another consumer has claimed meanwhile.
-- KEYS: stream. ARGV: group, consumer, entry ids.
-- reply: how many the consumer still holds. Safe to repeat.
local held = 0
for i = 3, #ARGV do
    if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) > 0 then
        redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
        held = held + 1
    end
end
return held
