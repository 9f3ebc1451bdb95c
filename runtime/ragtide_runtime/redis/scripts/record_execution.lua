-- Writes the result of an experiment's call and the answer, or neither.
-- uses: entries, known_ids
-- KEYS: executed, executions, interactions, the keys of the interaction id's owner.
-- ARGV: field of config and item, execution, interaction or nothing, dedupe window in ms, digest of the id.
-- reply: 1, or 0 if this config has a result for this item already. Safe to repeat.
if redis.call('HSETNX', KEYS[1], ARGV[1], '') == 0 then
    return 0
end
if ARGV[3] ~= '' then
    local entry = add_entry(KEYS[3], ARGV[3])
    remember_id(declared_keys(4), ARGV[5], entry, tonumber(ARGV[4]))
    redis.call('HSET', KEYS[1], ARGV[1], entry)
end
add_entry(KEYS[2], ARGV[2])
return 1
