-- Stores the annotation of a person about an item in place of the one before, or removes it.
-- KEYS: annotations of the item, annotated items.
-- ARGV: item, person, annotation (empty to remove it), time now in seconds, seconds to keep, most items, most people of
--       an item.
-- reply: `stored`, `removed`, `none` if there was nothing to remove, or `items` or `people` if there is no room.
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[4])
-- The field '' is no person: it names the one whose answers were published.
local people = redis.call('HLEN', KEYS[1]) - redis.call('HEXISTS', KEYS[1], '')
if ARGV[3] == '' then
    local removed = redis.call('HDEL', KEYS[1], ARGV[2])
    if people == removed then
        redis.call('DEL', KEYS[1])
        redis.call('ZREM', KEYS[2], ARGV[1])
    end
    return removed == 1 and 'removed' or 'none'
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
    if people >= tonumber(ARGV[7]) then
        return 'people'
    end
    if not redis.call('ZSCORE', KEYS[2], ARGV[1]) and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[6]) then
        return 'items'
    end
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.call('ZADD', KEYS[2], tonumber(ARGV[4]) + tonumber(ARGV[5]), ARGV[1])
return 'stored'
