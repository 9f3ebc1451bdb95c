-- Adds a feedback item and its probe in one step, so that Redis loses the probe if it loses the entry. The entry itself
-- cannot be the probe: it is trimmed as soon as the aggregator has it.
-- uses: entries
-- KEYS: feedback, the probe of this item. ARGV: feedback item, ms for which the probe is kept.
-- reply: {entry id, 1 if it was added now, else 0}. Safe to repeat while the probe is kept.
local entry = redis.call('GET', KEYS[2])
if entry then
    return {entry, 0}
end
entry = add_entry(KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], entry, 'PX', ARGV[2])
return {entry, 1}
