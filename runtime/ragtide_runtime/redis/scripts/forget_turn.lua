-- Deletes the text of one turn of a session that has not ended. The turn still counts as one of the session.
-- uses: session_turns
-- KEYS: session, open sessions, sizes of sessions. ARGV: number of the turn, its text.
-- reply: 1 if it was deleted, 0 if the session has no such text. Safe to repeat.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
    return 0
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HINCRBY', KEYS[3], digest_of(KEYS[1]), -#ARGV[2])
redis.call('HINCRBY', KEYS[3], SESSIONS_TOTAL, -#ARGV[2])
return 1
