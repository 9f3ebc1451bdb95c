-- Checks that a recorder still owns a partition, and that the streams still have the entries that it has read.
-- uses: lists, stream_loss
-- KEYS: the recorder's lease, then streams. ARGV: token, then for each stream a list of ids after its length.
-- reply: 'fenced' if another recorder holds the lease, 'lost' if Redis lost entries that were read, otherwise 'held'.
--        Only reads. The ids are the ends of reads: a loss takes the last entry of every read first.
-- A lease that ran out is not fenced: if another recorder wrote in between, the number of the next manifest is taken.
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
    return 'fenced'
end
local at, gone = 2, false
for i = 2, #KEYS do
    at = each_in_list(at, function(j) gone = gone or lost(KEYS[i], ARGV[j]) return 1 end)
end
return gone and 'lost' or 'held'
