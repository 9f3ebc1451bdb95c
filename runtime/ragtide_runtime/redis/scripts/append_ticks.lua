-- Appends ticks to the metric events, if the owner has read both streams to their ends (service/ticks.py).
-- uses: beside_traffic, fields
-- KEYS: lease, metrics, feedback, sentinels. ARGV: token, positions of the owner (metrics, feedback), ticks.
-- reply: the id of the last tick. 'fenced' if another process has the lease, or 'behind' if an entry came that the owner
--        has not read; then nothing is written. Safe to repeat: the second time the ticks are entries that it has not read.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 'fenced'
end
for place, stream in ipairs({KEYS[2], KEYS[3]}) do
    local last = '0-0'
    if redis.call('EXISTS', stream) == 1 then
        last = by_name(redis.call('XINFO', 'STREAM', stream))['last-generated-id']
    end
    if last ~= ARGV[1 + place] then
        return 'behind'
    end
end
local last
for i = 4, #ARGV do
    -- A tick is no traffic.
    last = add_event_beside_traffic(KEYS[2], KEYS[4], ARGV[i])
end
return last
