-- Finds sessions that have ended: no entry that came within the quiet time after their last turn is still unfinished. What
-- waits for an unavailable labeler counts if it may be a turn.
-- uses: awaiting, entry_ids, groups, time
-- KEYS: interactions, open sessions, sizes of sessions.
-- ARGV: group of the workers, quiet time in ms, most open sessions, most bytes of all turns, most sessions of the reply.
-- reply: digests of sessions, those that were quiet for longest first. With more sessions or bytes than may be open, those
-- that were quiet for longest have ended, too. It changes nothing.
local QUIET, MOST, MOST_BYTES, COUNT = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local group = groups_of(KEYS[1])[ARGV[1]]
if not group then
    return {}
end
-- Every entry that came before this time is finished.
local finished = now_ms()
for _, consumer in ipairs(group['pending'] > 0 and redis.call('XPENDING', KEYS[1], ARGV[1])[4] or {}) do
    -- The labeler of what waits may be away for days: if it is a turn of no session, it keeps none open.
    if not is_awaiting(consumer[1]) or string.sub(consumer[1], 1, #AWAITING_TURN) == AWAITING_TURN then
        local oldest = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, consumer[1])[1]
        if oldest then finished = math.min(finished, milliseconds(oldest[1])) end
    end
end
local next = redis.call('XRANGE', KEYS[1], following(group['last-delivered-id']), '+', 'COUNT', 1)[1]
if next then
    finished = math.min(finished, milliseconds(next[1]))
end
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.0f', finished - QUIET), 'LIMIT', 0, COUNT)
local excess = redis.call('ZCARD', KEYS[2]) - MOST
local bytes = tonumber(redis.call('HGET', KEYS[3], SESSIONS_TOTAL) or 0) - MOST_BYTES
if #due < COUNT and (excess > #due or bytes > 0) then
    local quietest = redis.call('ZRANGE', KEYS[2], 0, COUNT - 1)
    for place, digest in ipairs(quietest) do
        bytes = bytes - tonumber(redis.call('HGET', KEYS[3], digest) or 0)
        if place > #due then
            table.insert(due, digest)
        end
        if place >= excess and bytes <= 0 then
            break
        end
    end
end
return due
