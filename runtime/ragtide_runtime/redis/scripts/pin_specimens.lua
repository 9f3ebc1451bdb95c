-- Pins specimens that an alert names: they neither expire nor make room while the alert fires.
-- KEYS: the order of the pipeline's specimens, pins, pinned, then the specimens.
-- ARGV: alert id, pipeline, most pinned specimens of the partition, digests of the specimens.
-- reply: for each specimen 1 if it is pinned, else 0. Safe to repeat.
local pipeline, pinned = ARGV[2], {}
local stored = redis.call('HGET', KEYS[2], ARGV[1]) or (pipeline .. '\n')
for i = 4, #ARGV do
    local digest, already = ARGV[i], string.find(stored, ARGV[i], #pipeline + 2, true) ~= nil
    local there = redis.call('EXISTS', KEYS[i]) == 1
    local known = redis.call('HEXISTS', KEYS[3], digest) == 1
    local room = known or redis.call('HLEN', KEYS[3]) < tonumber(ARGV[3])
    if there and room and not already then
        redis.call('PERSIST', KEYS[i])
        redis.call('ZREM', KEYS[1], digest)
        redis.call('HINCRBY', KEYS[3], digest, 1)
        stored, already = stored .. digest, true
        redis.call('HSET', KEYS[2], ARGV[1], stored)
    end
    pinned[#pinned + 1] = (there and already) and 1 or 0
end
return pinned
