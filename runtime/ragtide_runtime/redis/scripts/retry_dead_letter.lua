-- Moves the payload of a dead letter back to its stream.
-- uses: entries, known_ids
-- KEYS: dead letters, the stream it came from, the keys of the interaction id's owner or nothing.
-- ARGV: id of the dead letter, payload, entry that failed, digest of the id if there are those keys.
-- reply: the new entry, or nothing if the dead letter is no longer there. Safe to repeat.
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then
    return false
end
local entry = add_entry(KEYS[2], ARGV[2])
-- The id may still belong to the entry that failed; the new entry must not count as its duplicate.
if KEYS[3] then
    change_id(declared_keys(3), ARGV[4], ARGV[3], entry)
end
return entry
