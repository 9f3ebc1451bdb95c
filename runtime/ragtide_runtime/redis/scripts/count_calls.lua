-- Adds what a process counted of the calls of a labeler to an hour and a day, once for each batch of the process.
-- KEYS: counts of the hour, counts of the day.
-- ARGV: field of the process, number of its batch, seconds to keep the hour, seconds to keep the day, number of whole
--       numbers, then field and number of each, then field and dollars of each.
-- reply: 1 if they were added; 0 if this batch was added before.
if tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0) >= tonumber(ARGV[2]) then
    return 0
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local whole_end = 5 + 2 * tonumber(ARGV[5])
for i = 6, #ARGV, 2 do
    for _, key in ipairs(KEYS) do
        redis.call(i < whole_end and 'HINCRBY' or 'HINCRBYFLOAT', key, ARGV[i], ARGV[i + 1])
    end
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return 1
