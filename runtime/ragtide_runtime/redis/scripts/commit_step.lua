-- Writes one step of an aggregator: state, positions, estimates, alerts and dead letters, or none of them
-- (checkpoint/commit.py numbers the steps of the script).
-- uses: entries, lists, field_names
-- KEYS: lease, checkpoint, metrics, feedback, estimates, alerts, dead letters, names of fields, then for each graded
--       metric the set of its interaction, then the lists of series with closed panes.
-- ARGV: token, steps before, steps after, positions after (metrics, feedback), version, cap of estimates,
--       feedback window in ms, rows (each field and each value after its length, in 4 bytes), '1' if there may be new
--       keys, 'anew' with the names of the fields before this step or '' twice, then eight lists, each after its
--       length: ends of reads of metrics and of feedback, gone fields, graded metrics, estimates, alerts, dead letters,
--       closed panes (for each series how many stay, for how many ms, and the new records, each after its length in 4
--       bytes).
-- reply: 'committed', 'fenced', 'moved' or 'lost'. Safe to repeat: the second time it finds its own number of steps.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 'fenced'
end
local steps = redis.call('HGET', KEYS[2], CHECKPOINT_STEPS) or '0'
if steps ~= ARGV[2] then
    return steps == ARGV[3] and 'committed' or 'moved'
end
local at, gone = 13, false
local function list(visit)
    at = each_in_list(at, visit)
end
-- An entry after the checkpoint's position is never trimmed, so a read that is not in the stream was lost, even if all
-- entries of the stream are newer: Redis may have lost the whole stream.
local function check(stream)
    list(function(i) gone = gone or #redis.call('XRANGE', stream, ARGV[i], ARGV[i]) == 0 return 1 end)
end
check(KEYS[3])
check(KEYS[4])
if gone then
    return 'lost'
end
local names = begin_names(KEYS[2], KEYS[8], ARGV[11] == 'anew' and ARGV[12])
write_rows(KEYS[2], ARGV[9], ARGV[10] == '1', names)
list(function(i) redis.call('HDEL', KEYS[2], ARGV[i]) return 1 end)
local set = 8
list(function(i)
    set = set + 1
    redis.call('SADD', KEYS[set], ARGV[i])
    redis.call('PEXPIRE', KEYS[set], ARGV[8])
    return 1
end)
list(function(i) redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[7], '*', DATA_FIELD, ARGV[i]) return 1 end)
list(function(i) add_entry(KEYS[6], ARGV[i]) return 1 end)
list(function(i) add_entry(KEYS[7], ARGV[i]) return 1 end)
list(function(i)
    set = set + 1
    local records, place = ARGV[i + 2], 1
    while place <= #records do
        local record
        record, place = struct.unpack('>I4c0', records, place)
        redis.call('RPUSH', KEYS[set], record)
    end
    redis.call('LTRIM', KEYS[set], -ARGV[i], -1)
    redis.call('PEXPIRE', KEYS[set], ARGV[i + 1])
    return 3
end)
redis.call('HSET', KEYS[2], CHECKPOINT_STEPS, ARGV[3], CHECKPOINT_POSITION, ARGV[4],
    CHECKPOINT_FEEDBACK_POSITION, ARGV[5], CHECKPOINT_VERSION, ARGV[6])
end_names(KEYS[2], KEYS[8], names)
return 'committed'
