-- Deletes those of the consumers that hold no entry: deleting a consumer that holds entries would lose them.
-- KEYS: stream. ARGV: group, consumers.
-- reply: how many were deleted. Safe to repeat.
local deleted = 0
for i = 2, #ARGV do
    if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[i]) == 0 then
        redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[i])
        deleted = deleted + 1
    end
end
return deleted
