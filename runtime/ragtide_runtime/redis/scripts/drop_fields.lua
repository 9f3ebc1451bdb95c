-- Drops fields of a checkpoint, and ends the alerts that fired on them.
-- uses: entries, lists
-- KEYS: lease, checkpoint, alerts. ARGV: token, then two lists, each after its length: fields, alerts.
-- reply: 1, or 0 if the lease has another token: then nothing was written.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
local at = each_in_list(2, function(i) redis.call('HDEL', KEYS[2], ARGV[i]) return 1 end)
each_in_list(at, function(i) add_entry(KEYS[3], ARGV[i]) return 1 end)
return 1
