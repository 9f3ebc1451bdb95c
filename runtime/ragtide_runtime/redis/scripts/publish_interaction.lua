-- Adds an interaction, unless its id was seen within the dedupe window or there is no room for it.
-- uses: entries, known_ids
-- KEYS: interactions, dropped, the keys of the id's owner.
-- ARGV: interaction, dedupe window in ms, cap, policy, draw of the interaction in [0, 1), trace context or nothing,
--       digest of the id.
-- reply: {entry id, 1 if it was added now, else 0}, or {'full' or why it was dropped, -1}.
-- Safe to repeat: the second time the id is known. An interaction that the policy dropped is decided on, and counted,
-- again.
local keys = declared_keys(3)
local owner = known_id(keys, ARGV[7])
if owner then
    return {owner, 0}
end
local cap, why = tonumber(ARGV[3]), nil
local room = cap - redis.call('XLEN', KEYS[1])
if ARGV[4] == 'sample' then
    -- Kept with a probability that falls from 1 at half the cap to 0 at the cap.
    if tonumber(ARGV[5]) * cap >= 2 * room then
        why = 'sample'
    end
elseif room <= 0 then
    if ARGV[4] == 'block' then
        return {'full', -1}
    end
    why = 'drop_new'
end
if why then
    redis.call('HINCRBY', KEYS[2], why, 1)
    return {why, -1}
end
local entry = add_entry(KEYS[1], ARGV[1], ARGV[6])
remember_id(keys, ARGV[7], entry, tonumber(ARGV[2]))
return {entry, 1}
