-- Removes a lease, if it still has this token.
-- KEYS: lease. ARGV: token.
-- reply: 1 if it had the token, else 0. Safe to repeat.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
return redis.call('DEL', KEYS[1])
