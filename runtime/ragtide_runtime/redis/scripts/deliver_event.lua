-- Finishes an entry and adds its metric event (worker/results.py states the order and the reasons). Keeps the
-- interaction as a specimen if one is given.
-- uses: entries, finishing, known_ids, specimens
-- KEYS: interactions, metrics, finished entries, deliveries, rejected entries, the keys of the interaction id's owner,
--       the keys of its metric event; with a specimen the keys of shared/specimens.lua and of its lists.
-- ARGV: group, entry id, metric event, dedupe window in ms, feedback window in ms, trace context or nothing, digest of
--       the id; with a specimen the arguments of keep_specimen.
-- reply: 'emitted', 'duplicate' or 'finished_before'. With a specimen 'emitted' is a list, whose second item is 'kept',
--        'unneeded' or 'full'. Safe to repeat: the second time the entry is finished.
local OWNER, EVENT = 6, 6 + KNOWN_KEYS

-- Whether the entry has a dead letter, or the interaction a metric event of this entry and not of an earlier one.
local function has_result()
    if redis.call('ZSCORE', KEYS[5], ARGV[2]) then return true end
    local event = known_id(EVENT, ARGV[7])
    if not event then return false end
    local found = redis.call('XRANGE', KEYS[2], event, event)
    for i = 1, found[1] and #found[1][2] or 0, 2 do
        if found[1][2][i] == DATA_FIELD then
            return string.find(found[1][2][i + 1], '"entry_id":"' .. ARGV[2] .. '"', 1, true) ~= nil
        end
    end
    -- The event was trimmed. It is later than the entry that it scores.
    return before(ARGV[2], event)
end

local owner = known_id(OWNER, ARGV[7])
if owner and owner ~= ARGV[2] then
    return 'duplicate'
end
if not finish(ARGV[1], ARGV[2], 3, 4) then
    return 'finished_before'
end
-- Finished entries leave the set when they are trimmed, and may come back with an older copy of the stream.
local doubtful = redis.call('HGET', KEYS[4], DELIVERIES_DOUBTFUL)
if not (doubtful and before(doubtful, ARGV[2])) and has_result() then
    count_again(4)
    return 'finished_before'
end
if not owner then
    remember_id(OWNER, ARGV[7], ARGV[2], tonumber(ARGV[4]))
end
local event = add_entry(KEYS[2], ARGV[3], ARGV[6])
remember_id(EVENT, ARGV[7], event, tonumber(ARGV[5]))
if #ARGV > 7 then
    return {'emitted', keep_specimen(EVENT + KNOWN_KEYS, 8)}
end
return 'emitted'
