-- Publishes a batch of a replay together with the position after it.
-- uses: entries, known_ids
-- KEYS: replay, interactions, feedback, then for each interaction the keys of its id's owner.
-- ARGV: position before, position after, dedupe window in ms, number of interactions, for each its digest and itself,
--       then feedback about them.
-- reply: 1 if they were published now, 0 if they had been, nothing if the replay is at another position.
-- Safe to repeat: the second time the position is that after the batch.
local at = redis.call('HGET', KEYS[1], REPLAY_POSITION) or ''
if at == ARGV[2] then
    return 0
end
if at ~= ARGV[1] then
    return false
end
local count, added = tonumber(ARGV[4]), 0
for i = 1, count do
    local keys, digest = declared_keys(4 + KNOWN_KEYS * (i - 1)), ARGV[3 + 2 * i]
    if not known_id(keys, digest) then
        remember_id(keys, digest, add_entry(KEYS[2], ARGV[4 + 2 * i]), tonumber(ARGV[3]))
        added = added + 1
    end
end
for i = 5 + 2 * count, #ARGV do
    add_entry(KEYS[3], ARGV[i])
end
redis.call('HINCRBY', KEYS[1], REPLAY_PUBLISHED, added)
redis.call('HINCRBY', KEYS[1], REPLAY_DUPLICATES, count - added)
redis.call('HSET', KEYS[1], REPLAY_POSITION, ARGV[2])
return 1
