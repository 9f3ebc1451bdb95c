-- Ends a trace that was read, unless further spans have come: it is counted, and its spans are kept or deleted.
-- uses: traces
-- KEYS: trace, open traces, read traces, bytes of all traces, kept traces, outcomes of this hour.
-- ARGV: trace id, ms for which ids of used spans are kept, 'keep' to keep the spans, else 'delete'.
-- reply: what the trace gave; empty if it was counted before. Safe to repeat.
if not redis.call('ZSCORE', KEYS[3], ARGV[1]) and not redis.call('ZSCORE', KEYS[5], ARGV[1]) then
    return ''
end
return close_trace(ARGV[1], ARGV[2], ARGV[3] == 'keep')
