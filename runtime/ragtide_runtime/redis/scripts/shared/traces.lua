-- The stored spans of traces. A span has its id as the field, and its time of arrival before its value.
-- KEYS of each script: trace, open traces, read traces, bytes of all traces.
local FIELD_BYTES, SPAN_ID = 100, 8
local function free_bytes(bytes)
    if redis.call('DECRBY', KEYS[4], bytes) <= 0 then
        redis.call('DEL', KEYS[4])
    end
end
-- Deletes the spans of a trace. The ids of those that became interactions are kept for a while.
local function close_trace(id, kept_ms)
    local found = redis.call(
        'HMGET', KEYS[1], TRACE_BYTES, TRACE_VERSION, TRACE_DECISION, TRACE_USED_SPANS, TRACE_CONTENTS
    )
    redis.call('ZREM', KEYS[2], id)
    redis.call('ZREM', KEYS[3], id)
    redis.call('DEL', KEYS[1])
    free_bytes(found[1] or 0)
    if found[4] then
        redis.call(
            'HSET', KEYS[1], TRACE_VERSION, found[2], TRACE_DECISION, found[3],
            TRACE_USED_SPANS, found[4], TRACE_CONTENTS, found[5]
        )
        redis.call('PEXPIRE', KEYS[1], kept_ms)
    end
end
-- Deletes some spans of a trace.
local function drop_spans(first)
    local bytes, spans = 0, 0
    for i = first, #ARGV do
        local length = redis.call('HSTRLEN', KEYS[1], ARGV[i])
        if redis.call('HDEL', KEYS[1], ARGV[i]) == 1 then
            bytes, spans = bytes + length + FIELD_BYTES, spans + 1
        end
    end
    if spans > 0 then
        redis.call('HINCRBY', KEYS[1], TRACE_BYTES, -bytes)
        redis.call('HINCRBY', KEYS[1], TRACE_SPANS, -spans)
        free_bytes(bytes)
    end
end
