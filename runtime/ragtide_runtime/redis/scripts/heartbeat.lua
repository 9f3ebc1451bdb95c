-- Lists a member, and removes members that were silent for too long.
-- uses: time
-- KEYS: members. ARGV: member, ms for which it counts, partitions it owns.
-- reply: every member that counts, each with the number of partitions it owns. Safe to repeat.
local now = now_ms()
redis.call('HSET', KEYS[1], ARGV[1], (now + ARGV[2]) .. ' ' .. ARGV[3])
local found = redis.call('HGETALL', KEYS[1])
local members = {}
for i = 1, #found, 2 do
    local ends, owned = string.match(found[i + 1], '(%d+) (%d+)')
    if tonumber(ends) < now then
        redis.call('HDEL', KEYS[1], found[i])
    else
        table.insert(members, found[i])
        table.insert(members, owned)
    end
end
return members
