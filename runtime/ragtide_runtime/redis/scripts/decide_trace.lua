-- Writes down which interactions a trace holds, before they are published, unless spans have come since it was read.
-- uses: entries, outcomes
-- KEYS: trace, dead letters, outcomes of this hour.
-- ARGV: version that was read, ids of the used spans, digests of the contents, interactions, the service, then reason,
--       dead letter of each interaction that cannot be used.
-- reply: the number of the decision; nil if spans have come. Not safe to repeat, but a second decision of one version
-- is refused.
local MOST_IDS = 20000
-- Most dead letters of one hour, of a service with one reason and of all: further interactions are only counted.
local MOST_ALIKE, MOST_LETTERS = 100, 2000
local found = redis.call('HMGET', KEYS[1], TRACE_VERSION, TRACE_USED_SPANS, TRACE_CONTENTS)
if found[1] ~= ARGV[1] then
    return false
end
-- Of a trace without an end only the last ids and digests are kept.
local used = string.sub((found[2] or '') .. ARGV[2], -8 * MOST_IDS)
local contents = string.sub((found[3] or '') .. ARGV[3], -8 * MOST_IDS)
redis.call('HSET', KEYS[1], TRACE_USED_SPANS, used, TRACE_CONTENTS, contents)
-- The version changes, so that another process that has read the same version cannot decide, too.
redis.call('HINCRBY', KEYS[1], TRACE_VERSION, 1)
if ARGV[4] ~= '' then
    redis.call('HSET', KEYS[1], TRACE_OUTBOX, ARGV[4])
end
for i = 6, #ARGV, 2 do
    local number = count_outcome(KEYS[3], OUTCOME_REFUSED, ARGV[i], ARGV[5])
    if number <= MOST_ALIKE and redis.call('HINCRBY', KEYS[3], OUTCOME_LETTERS, 1) <= MOST_LETTERS then
        add_entry(KEYS[2], ARGV[i + 1])
    end
end
return redis.call('HINCRBY', KEYS[1], TRACE_DECISION, 1)
