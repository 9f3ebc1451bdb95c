-- Sets the entry of an id.
-- uses: known_ids
-- KEYS: the keys of the id. ARGV: its digest, entry, window in ms.
-- reply: 1. Safe to repeat.
remember_id(declared_keys(1), ARGV[1], ARGV[2], tonumber(ARGV[3]))
return 1
