-- Ends a session: its turns are forgotten, and its interactions, if there are any, are added.
-- uses: entries, known_ids, session_turns
-- KEYS: session, open sessions, sizes of sessions, interactions, then for each interaction the keys of its id's owner.
-- ARGV: number of turns that were read ('' if the session had expired), dedupe window in ms, for each interaction its
--       digest and itself.
-- reply: number of interactions that were added; nothing if the session has another number of turns, because another
--        worker ended it or a turn came. Safe to repeat: the second time the session has no turns.
local is_open = redis.call('ZSCORE', KEYS[2], digest_of(KEYS[1]))
if not is_open or (redis.call('HGET', KEYS[1], SESSION_TURNS) or '') ~= ARGV[1] then
    return false
end
local added = 0
for i = 1, (#ARGV - 2) / 2 do
    local keys, digest = declared_keys(5 + KNOWN_KEYS * (i - 1)), ARGV[1 + 2 * i]
    if not known_id(keys, digest) then
        remember_id(keys, digest, add_entry(KEYS[4], ARGV[2 + 2 * i]), tonumber(ARGV[2]))
        added = added + 1
    end
end
forget_session(KEYS[1], KEYS[2], KEYS[3])
return added
