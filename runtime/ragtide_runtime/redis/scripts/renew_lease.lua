-- Prolongs a lease. A lease that ran out is taken back, unless another process has acquired it since: the counter of
-- fencing tokens then has another number.
-- KEYS: lease, counter of fencing tokens. ARGV: token, lease ms.
-- reply: 1 if the lease is held with this token, 2 if it was taken back, 0 if another process has it. Safe to repeat.
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
    return 0
end
if not held and redis.call('GET', KEYS[2]) ~= string.match(ARGV[1], '^%d+') then
    return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return held and 1 or 2
