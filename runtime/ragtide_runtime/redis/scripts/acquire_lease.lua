-- Takes a lease that is free, or that this holder had and could not release because Redis did not answer.
-- KEYS: lease, counter of fencing tokens. ARGV: holder, lease ms.
-- reply: the fencing token, or the ms for which another process still holds the lease.
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, -#ARGV[1] - 1) ~= ':' .. ARGV[1] then
    return redis.call('PTTL', KEYS[1])
end
local token = redis.call('INCR', KEYS[2]) .. ':' .. ARGV[1]
redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
return token
