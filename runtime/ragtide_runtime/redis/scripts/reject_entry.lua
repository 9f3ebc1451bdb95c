-- Finishes an entry and adds a dead letter about it.
-- uses: entries, finishing
-- KEYS: interactions, dead letters, finished entries, deliveries, rejected entries. ARGV: group, entry id, dead letter, 1
--       if the entry is still to be acknowledged: since 7.0 Redis acknowledges an entry that was deleted.
-- reply: 'rejected' or 'finished_before'. Safe to repeat.
local finished_now = finish(ARGV[1], ARGV[2], 3, 4)
if not finished_now and ARGV[4] == '1' then
    return 'finished_before'
end
-- The stream may have come back from an older copy, with entries that were finished and trimmed.
if redis.call('ZADD', KEYS[5], string.match(ARGV[2], '^%d+'), ARGV[2]) == 0 then
    return 'finished_before'
end
add_entry(KEYS[2], ARGV[3])
return 'rejected'
