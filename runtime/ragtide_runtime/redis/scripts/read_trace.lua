-- Returns all fields of a trace, and counts that it was read.
-- KEYS: trace. ARGV: none.
-- reply: field, value, field, value, ...; empty if there is no such trace. Safe to repeat.
if redis.call('EXISTS', KEYS[1]) == 0 then
    return {}
end
redis.call('HINCRBY', KEYS[1], TRACE_READS, 1)
return redis.call('HGETALL', KEYS[1])
