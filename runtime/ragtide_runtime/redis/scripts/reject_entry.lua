-- Acknowledges an entry and adds a dead letter about it.
-- uses: entries
-- KEYS: interactions, dead letters. ARGV: group, entry id, dead letter, 1 if the entry is still to be acknowledged.
-- reply: 'rejected' or 'finished_before'. Safe to repeat, unless the entry was not to be acknowledged.
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 and ARGV[4] == '1' then
    return 'finished_before'
end
add_entry(KEYS[2], ARGV[3])
return 'rejected'
