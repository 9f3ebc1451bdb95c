-- Records an answer to a sentinel: its metric event, and the answers that are remembered from now on.
-- uses: beside_traffic
-- KEYS: lease, sentinels, metrics.
-- ARGV: token, number of answers before, time of the answer in ms, digest of the sentinel, its remembered answers,
--       metric event.
-- reply: 'recorded', 'fenced' if another process has the lease, or 'before' if this number was recorded before.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 'fenced'
end
if (redis.call('HGET', KEYS[2], SENTINEL_NUMBER) or '0') ~= ARGV[2] then
    return 'before'
end
local number, item = string.format('%.0f', tonumber(ARGV[2]) + 1), SENTINEL_ITEM .. ARGV[4]
add_event_beside_traffic(KEYS[3], KEYS[2], ARGV[6])
redis.call('HSET', KEYS[2], SENTINEL_NUMBER, number, SENTINEL_ASKED, ARGV[3], item, ARGV[5])
return 'recorded'
