-- Releases the specimens that an alert has pinned: they expire after the usual time, and may make room again.
-- uses: time
-- KEYS: the order of the pipeline's specimens, pins, pinned, then the pinned specimens.
-- ARGV: alert id, milliseconds to keep, digests of the specimens.
-- reply: number of specimens that no alert pins any more. Safe to repeat.
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then
    return 0
end
local released, expires = 0, now_ms() + tonumber(ARGV[2])
for i = 3, #ARGV do
    if redis.call('HINCRBY', KEYS[3], ARGV[i], -1) <= 0 then
        redis.call('HDEL', KEYS[3], ARGV[i])
        if redis.call('PEXPIRE', KEYS[i + 1], ARGV[2]) == 1 then
            redis.call('ZADD', KEYS[1], expires, ARGV[i])
            redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) + 60000)
        end
        released = released + 1
    end
end
return released
