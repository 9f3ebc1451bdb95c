-- uses: entries, fields
-- Adds a metric event that is no traffic: of a sentinel, or of a whole session. The silence of the traffic is measured
-- from the last event that is neither (trim_streams.lua).
local function add_event_beside_traffic(metrics, sentinels, event, traceparent)
    if redis.call('EXISTS', metrics) == 1 then
        local last = by_name(redis.call('XINFO', 'STREAM', metrics))['last-generated-id']
        if redis.call('HGET', sentinels, SENTINEL_EVENT) ~= last then
            redis.call('HSET', sentinels, SENTINEL_TRAFFIC, last)
        end
    end
    local entry = add_entry(metrics, event, traceparent)
    redis.call('HSET', sentinels, SENTINEL_EVENT, entry)
    return entry
end
