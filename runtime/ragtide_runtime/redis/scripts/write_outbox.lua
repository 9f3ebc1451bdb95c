-- Writes one step of a notifier: alerts that were read become entries of the outbox and are acknowledged, or answers of
-- destinations are kept. All of a step is written, or nothing (notify/outbox_step.py).
-- uses: entries, lists
-- KEYS: lease, outbox, alerts, dead letters. ARGV: token, revision before, revision after, group, then five lists, each
--       after its length: entries to acknowledge, fields and values to set, fields to delete, dead letters, alerts.
-- reply: 'written', 'fenced' (another process owns the partition) or 'moved' (the outbox has another revision).
--        Safe to repeat: the second time it finds its own revision.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 'fenced'
end
local revision = redis.call('HGET', KEYS[2], OUTBOX_REVISION) or '0'
if revision ~= ARGV[2] then
    return revision == ARGV[3] and 'written' or 'moved'
end
local at = each_in_list(5, function(i) redis.call('XACK', KEYS[3], ARGV[4], ARGV[i]) return 1 end)
at = each_in_list(at, function(i) redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) return 2 end)
at = each_in_list(at, function(i) redis.call('HDEL', KEYS[2], ARGV[i]) return 1 end)
at = each_in_list(at, function(i) add_entry(KEYS[4], ARGV[i]) return 1 end)
each_in_list(at, function(i) add_entry(KEYS[3], ARGV[i]) return 1 end)
redis.call('HSET', KEYS[2], OUTBOX_REVISION, ARGV[3])
return 'written'
