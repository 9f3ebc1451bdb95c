-- Acknowledges an entry and adds its metric event (worker/results.py states the order and the reasons). Keeps the
-- interaction as a specimen if one is given.
-- uses: entries, known_ids, specimens
-- KEYS: interactions, metrics, the keys of the interaction id's owner, the keys of its metric event; with a specimen the
--       keys of shared/specimens.lua and of its lists.
-- ARGV: group, entry id, metric event, dedupe window in ms, feedback window in ms, trace context or nothing, digest of
--       the id; with a specimen the arguments of keep_specimen.
-- reply: 'emitted', 'duplicate' or 'finished_before'. With a specimen 'emitted' is a list, whose second item is 'kept',
--        'unneeded' or 'full'. Safe to repeat: the second time the entry is acknowledged.
local owner = known_id(3, ARGV[7])
if owner and owner ~= ARGV[2] then
    return 'duplicate'
end
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then
    return 'finished_before'
end
if not owner then
    remember_id(3, ARGV[7], ARGV[2], tonumber(ARGV[4]))
end
local event = add_entry(KEYS[2], ARGV[3], ARGV[6])
remember_id(3 + KNOWN_KEYS, ARGV[7], event, tonumber(ARGV[5]))
if #ARGV > 7 then
    return {'emitted', keep_specimen(3 + 2 * KNOWN_KEYS, 8)}
end
return 'emitted'
