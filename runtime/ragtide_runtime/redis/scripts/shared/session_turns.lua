-- uses: entry_ids, time
-- The turns of sessions that have not ended. The last part of a session's key is its digest.
-- open, sizes: the sorted set of open sessions, and the hash of their bytes.
local function digest_of(session)
    return string.match(session, '[^:]+$')
end

local function forget_session(session, open, sizes)
    local digest = digest_of(session)
    local bytes = tonumber(redis.call('HGET', sizes, digest) or 0)
    redis.call('HDEL', sizes, digest)
    if bytes > 0 and redis.call('HINCRBY', sizes, SESSIONS_TOTAL, -bytes) <= 0 then
        redis.call('HDEL', sizes, SESSIONS_TOTAL)
    end
    redis.call('ZREM', open, digest)
    redis.call('DEL', session)
end

-- Adds a turn; of more than the most turns or bytes the oldest are dropped, but never the turn itself.
local function add_turn(session, open, sizes, turn, entry, most, most_bytes, ttl)
    local digest = digest_of(session)
    if redis.call('EXISTS', session) == 0 then
        forget_session(session, open, sizes)
    end
    local number = redis.call('HINCRBY', session, SESSION_TURNS, 1) - 1
    local first, bytes = tonumber(redis.call('HGET', session, SESSION_FIRST) or 0), #turn
    local before = tonumber(redis.call('HGET', sizes, digest) or 0)
    redis.call('HSET', session, number, turn)
    while first < number and (number - first >= most or before + bytes > most_bytes) do
        bytes = bytes - redis.call('HSTRLEN', session, first)
        redis.call('HDEL', session, first)
        first = first + 1
    end
    redis.call('HSET', session, SESSION_FIRST, first)
    redis.call('PEXPIRE', session, ttl)
    redis.call('HINCRBY', sizes, digest, bytes)
    redis.call('HINCRBY', sizes, SESSIONS_TOTAL, bytes)
    -- The time in an id is ahead if the clock of Redis has gone back.
    local last = math.max(math.min(milliseconds(entry), now_ms()), tonumber(redis.call('ZSCORE', open, digest) or 0))
    redis.call('ZADD', open, string.format('%.0f', last), digest)
end
