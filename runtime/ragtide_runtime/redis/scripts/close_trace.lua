-- Deletes the spans of a trace that was read, unless further spans have come.
-- uses: traces
-- KEYS: trace, open traces, read traces, bytes of all traces. ARGV: trace id, ms for which ids of used spans are kept.
-- reply: 1 if the trace was closed. Safe to repeat.
if not redis.call('ZSCORE', KEYS[3], ARGV[1]) then
    return 0
end
close_trace(ARGV[1], ARGV[2])
return 1
