-- Claims traces that are due, so that other processes leave them alone for a while.
-- uses: time
-- KEYS: open traces, traces that were read, or kept traces.
-- ARGV: time for which they are claimed in ms, most traces, ms after which they are due.
-- reply: {the server's time in ms, trace ids}. Safe to repeat: an unfinished claim ends by itself.
local now = now_ms()
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3], 'LIMIT', 0, ARGV[2])
for _, id in ipairs(due) do
    redis.call('ZADD', KEYS[1], now + tonumber(ARGV[1]), id)
end
return {now, due}
