-- Measures one shard of the known ids of a partition, and the rate of metric events.
-- uses: entry_ids, time
-- KEYS: metrics, then all buckets of the shard. ARGV: number of metric events to look at.
-- reply: {bytes of the buckets, metric events a minute among the last ones}. Only reads.
local bytes = 0
for i = 2, #KEYS do
    bytes = bytes + (redis.call('MEMORY', 'USAGE', KEYS[i]) or 0)
end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[1])
if #last < 2 then
    return {bytes, 0}
end
local since_s = (now_ms() - milliseconds(last[#last][1])) / 1000
return {bytes, math.floor(60 * #last / math.max(since_s, 1))}
