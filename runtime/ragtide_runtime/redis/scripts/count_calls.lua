-- Adds what a process counted of the calls of a labeler to an hour and a day, once for each batch of the process.
-- KEYS: counts of the hour, counts of the day.
-- ARGV: field of the process, number of its batch, seconds to keep the hour, seconds to keep the day, field that counts
--       pipelines, most pipelines of an hour or a day (the dollars of others are only in the sums), number of whole
--       numbers, number of sums of dollars, then field and number of each, field and dollars of each sum, and field and
--       dollars of each pipeline.
-- reply: 1 if they were added; 0 if this batch was added before.
if tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0) >= tonumber(ARGV[2]) then
    return 0
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local sums = 9 + 2 * tonumber(ARGV[7])
local pipelines = sums + 2 * tonumber(ARGV[8])
for i = 9, pipelines - 1, 2 do
    for _, key in ipairs(KEYS) do
        redis.call(i < sums and 'HINCRBY' or 'HINCRBYFLOAT', key, ARGV[i], ARGV[i + 1])
    end
end
for _, key in ipairs(KEYS) do
    local named = tonumber(redis.call('HGET', key, ARGV[5]) or 0)
    for i = pipelines, #ARGV, 2 do
        local known = redis.call('HEXISTS', key, ARGV[i]) == 1
        if known or named < tonumber(ARGV[6]) then
            redis.call('HINCRBYFLOAT', key, ARGV[i], ARGV[i + 1])
            named = named + (known and 0 or 1)
        end
    end
    if named > 0 then
        redis.call('HSET', key, ARGV[5], named)
    end
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return 1
