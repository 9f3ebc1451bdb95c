-- Adds an entry with one model to a stream and returns its id; a trace context travels along unless it is empty.
local function add_entry(stream, model, traceparent)
    if traceparent and traceparent ~= '' then
        return redis.call('XADD', stream, '*', DATA_FIELD, model, TRACEPARENT_FIELD, traceparent)
    end
    return redis.call('XADD', stream, '*', DATA_FIELD, model)
end
