-- Ends the reading of a trace: its interactions are published, and it waits for further spans or is closed.
-- uses: traces
-- KEYS: trace, open traces, read traces, bytes of all traces, kept traces, outcomes of this hour.
-- ARGV: trace id, version that was read or decided, decision whose interactions are published or 0, the next step
--       ('again', 'keep' or 'close'), its time in ms, ms for which ids of used spans are kept, 'keep' to keep the spans
--       of a closed trace, what the trace gave or nothing, ids of spans to delete.
-- reply: what a closed trace gave; empty if it is not closed, or was counted before. Safe to repeat.
local found = redis.call('HMGET', KEYS[1], TRACE_VERSION, TRACE_DECISION)
if found[2] and found[2] == ARGV[3] then
    redis.call('HDEL', KEYS[1], TRACE_OUTBOX)
end
if not found[1] then
    redis.call('ZREM', KEYS[2], ARGV[1])
    redis.call('ZREM', KEYS[3], ARGV[1])
    redis.call('ZREM', KEYS[5], ARGV[1])
    return ''
end
redis.call('HDEL', KEYS[1], TRACE_READS)
drop_spans(9)
if found[1] ~= ARGV[2] then
    return ''
end
-- A trace that was counted does not count again.
if ARGV[8] ~= '' and redis.call('HGET', KEYS[1], TRACE_OUTCOME) ~= '' then
    redis.call('HSET', KEYS[1], TRACE_OUTCOME, ARGV[8])
end
if ARGV[4] == 'again' then
    redis.call('ZADD', KEYS[2], ARGV[5], ARGV[1])
elseif ARGV[4] == 'keep' then
    redis.call('ZREM', KEYS[2], ARGV[1])
    redis.call('ZADD', KEYS[3], ARGV[5], ARGV[1])
else
    return close_trace(ARGV[1], ARGV[6], ARGV[7] == 'keep')
end
return ''
