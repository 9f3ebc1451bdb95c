-- The stored spans of traces. A span has its id as the field, and its time of arrival before its value.
-- uses: outcomes, time
-- KEYS of each script: trace, open traces, read traces, bytes of all traces, kept traces; the outcomes of this hour where
-- traces end.
local FIELD_BYTES, SPAN_ID = 100, 8
local function free_bytes(bytes)
    if redis.call('DECRBY', KEYS[4], bytes) <= 0 then
        redis.call('DEL', KEYS[4])
    end
end
-- Counts what a trace gave, and returns it; nothing if it was counted before.
local function count_trace(id)
    local outcome = redis.call('HGET', KEYS[1], TRACE_OUTCOME)
    if not outcome or outcome == '' then
        return ''
    end
    local kind, service = string.match(outcome, '^([^:]*):(.*)$')
    local _, field = count_outcome(KEYS[6], OUTCOME_TRACES, kind, service)
    redis.call('HSET', KEYS[6], OUTCOME_NEWEST .. field, id)
    redis.call('HSET', KEYS[1], TRACE_OUTCOME, '')
    return kind
end
-- Ends a trace and returns what it gave. Its spans are kept to be explained, or deleted; the ids of those that became
-- interactions are kept for a while.
local function close_trace(id, ids_ms, keeps)
    local outcome = count_trace(id)
    if keeps then
        redis.call('ZREM', KEYS[2], id)
        redis.call('ZREM', KEYS[3], id)
        redis.call('ZADD', KEYS[5], now_ms(), id)
        return outcome
    end
    local found = redis.call(
        'HMGET', KEYS[1], TRACE_BYTES, TRACE_VERSION, TRACE_DECISION, TRACE_USED_SPANS, TRACE_CONTENTS
    )
    redis.call('ZREM', KEYS[2], id)
    redis.call('ZREM', KEYS[3], id)
    redis.call('ZREM', KEYS[5], id)
    redis.call('DEL', KEYS[1])
    free_bytes(found[1] or 0)
    if found[4] then
        redis.call(
            'HSET', KEYS[1], TRACE_VERSION, found[2], TRACE_DECISION, found[3],
            TRACE_USED_SPANS, found[4], TRACE_CONTENTS, found[5], TRACE_OUTCOME, ''
        )
        redis.call('PEXPIRE', KEYS[1], ids_ms)
    end
    return outcome
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
