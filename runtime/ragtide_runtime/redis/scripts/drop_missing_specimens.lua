-- Takes specimens off a list that are no longer stored: they have expired, or made room for others.
-- KEYS: the list, then specimens. ARGV: digests of these specimens.
-- reply: number of specimens that were taken off.
local dropped = 0
for i = 2, #KEYS do
    if redis.call('EXISTS', KEYS[i]) == 0 then
        dropped = dropped + redis.call('ZREM', KEYS[1], ARGV[i - 1])
    end
end
return dropped
