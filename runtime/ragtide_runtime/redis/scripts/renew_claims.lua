-- Makes entries look just delivered, as far as the consumer still holds them, or a consumer of those that wait for a
-- labeler: they stay there while they are tried again. XCLAIM alone would also take back entries that another consumer has
-- claimed meanwhile.
-- uses: awaiting
-- KEYS: stream. ARGV: group, consumer, entry ids.
-- reply: how many are still held. Safe to repeat.
local held = 0
for i = 3, #ARGV do
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
    if pending and (pending[2] == ARGV[2] or is_awaiting(pending[2])) then
        redis.call('XCLAIM', KEYS[1], ARGV[1], pending[2], 0, ARGV[i], 'JUSTID')
        held = held + 1
    end
end
return held
