-- Resolves the alert about a spend limit; of several workers that try the first one does it.
-- uses: entries
-- KEYS: alert that fires, alerts. ARGV: the alert that fires, the same alert resolved or nothing.
-- reply: 1 if it was resolved now, else 0. Safe to repeat.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' then
    add_entry(KEYS[2], ARGV[2])
end
return 1
