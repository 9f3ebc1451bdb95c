-- Stores spans of one trace until the trace is due to be read. Spans that were read change no more.
-- uses: time, traces
-- KEYS: trace, open traces, read traces, bytes of all traces, kept traces.
-- ARGV: trace id, settle time in ms, most open traces, most bytes of all traces, most spans of the trace, most bytes of
--       the trace, allowed pipelines or nothing, then field, value of each resource and span.
-- reply: {stored, repeated, late, rejected} numbers of spans; {-1} if there is no room, and then nothing was stored.
-- Safe to repeat: the second time the spans are known.
local known = redis.call('HMGET', KEYS[1], TRACE_BYTES, TRACE_SPANS, TRACE_DECISION, TRACE_USED_SPANS)
local bytes, spans = tonumber(known[1] or 0), tonumber(known[2] or 0)
local was_read, used = known[3], known[4] or ''

local function is_used(id)
    local at = string.find(used, id, 1, true)
    while at and (at - 1) % SPAN_ID > 0 do
        at = string.find(used, id, at + 1, true)
    end
    return at
end

local now = now_ms()
local stamp = struct.pack('>I6', now)
local stored, repeated, late, rejected, added = 0, 0, 0, 0, 0
local write, seen = {}, {}
for i = 8, #ARGV, 2 do
    local field, value = ARGV[i], ARGV[i + 1]
    local is_span = #field == SPAN_ID
    local old = seen[field] or redis.call('HGET', KEYS[1], field)
    local same = old and (is_span and string.sub(old, #stamp + 1) or old) == value
    if is_span then
        value = stamp .. value
    end
    local cost = old and #value - #old or #value + FIELD_BYTES
    if not is_span and same then
        cost = 0
    elseif same or (was_read and is_span and (old or is_used(field))) then
        repeated = repeated + 1
        late = late + (was_read and old and not same and 1 or 0)
    elseif bytes + added + cost > tonumber(ARGV[6]) or (is_span and not old and spans >= tonumber(ARGV[5])) then
        rejected = rejected + (is_span and 1 or 0)
    else
        seen[field] = value
        write[#write + 1] = field
        write[#write + 1] = value
        added = added + cost
        if is_span then
            stored = stored + 1
            spans = spans + (old and 0 or 1)
            late = late + (was_read and 1 or 0)
        end
    end
end
if stored == 0 then
    return {0, repeated, late, rejected}
end
local is_open = redis.call('ZSCORE', KEYS[2], ARGV[1])
if tonumber(redis.call('GET', KEYS[4]) or 0) + added > tonumber(ARGV[4])
    or (not is_open and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3])) then
    return {-1}
end
for i = 1, #write, 2 do
    redis.call('HSET', KEYS[1], write[i], write[i + 1])
end
redis.call('HINCRBY', KEYS[1], TRACE_VERSION, 1)
redis.call('HSET', KEYS[1], TRACE_BYTES, bytes + added, TRACE_SPANS, spans, TRACE_PIPELINES, ARGV[7])
redis.call('PERSIST', KEYS[1])
redis.call('INCRBY', KEYS[4], added)
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
-- A large trace is read less often while it grows: one millisecond later for each span.
redis.call('ZADD', KEYS[2], 'LT', now + tonumber(ARGV[2]) + spans, ARGV[1])
return {stored, repeated, late, rejected}
