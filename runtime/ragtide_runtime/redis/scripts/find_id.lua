-- Finds the entry of a known id.
-- uses: known_ids
-- KEYS: the keys of the id. ARGV: its digest.
-- reply: its entry, or nothing. Only reads.
return (known_id(declared_keys(1), ARGV[1])) or false
