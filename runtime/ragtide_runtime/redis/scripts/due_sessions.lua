-- Finds sessions that have ended: no entry that came within the quiet time after their last turn is still unfinished. What
-- waits for an unavailable labeler counts if it may be a turn.
-- uses: groups, scored_until
-- KEYS: interactions, open sessions, sizes of sessions.
-- ARGV: group of the workers, quiet time in ms, most open sessions, most bytes of all turns, most sessions of the reply.
-- reply: digests of sessions, those that were quiet for longest first. With more sessions or bytes than may be open, those
-- that were quiet for longest have ended, too. It changes nothing.
local QUIET, MOST, MOST_BYTES, COUNT = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if not groups_of(KEYS[1])[ARGV[1]] then
    return {}
end
local finished = scored_until(KEYS[1], ARGV[1])
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
