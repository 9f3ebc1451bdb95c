-- Takes one delivery off entries, as far as the consumer still holds them: a delivery in which the labeler was
-- unavailable says nothing about the entry.
-- KEYS: interactions. ARGV: group, consumer, consumer that holds them from now on, entry ids.
-- reply: how many the consumer still holds.
local held = 0
for i = 4, #ARGV do
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
    if #pending > 0 then
        local count = math.max(pending[1][4] - 1, 0)
        redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, ARGV[i], 'RETRYCOUNT', count, 'JUSTID')
        held = held + 1
    end
end
return held
