-- Adds interactions, each unless its id was seen within the dedupe window or there is no room for it.
-- uses: entries, known_ids
-- KEYS: interactions, dropped.
-- ARGV: dedupe window in ms, cap, policy, the beginnings of the keys of owners (own keys, buckets), the digests of the
--       interactions (16 bytes each), then the interactions, then the trace contexts of all or nothing.
-- reply: a word for each interaction: its entry; '=' and its entry if it was there before; 'full' or why it was dropped.
-- Safe to repeat: the second time the ids are known. An interaction that the policy dropped is decided on, and counted,
-- again.
local WINDOW, CAP, POLICY, DIGESTS, BEFORE = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[6], 6
local count = #DIGESTS / 16
local room = CAP - redis.call('XLEN', KEYS[1])

-- Why an interaction that is new is not added; nil if it is.
local function refusal(digest)
    if POLICY == 'sample' then
        -- Kept with a probability that falls from 1 at half the cap to 0 at the cap. Its digest is its draw in [0, 1).
        return struct.unpack('>I6', digest) / 2 ^ 48 * CAP >= 2 * room and 'sample' or nil
    end
    if room <= 0 then
        return POLICY == 'block' and 'full' or 'drop_new'
    end
end

local digests, keys, own_keys = {}, {}, {}
for i = 1, count do
    local digest = string.sub(DIGESTS, 16 * i - 15, 16 * i)
    digests[i], keys[i] = string.sub(digest, 1, DIGEST), derived_keys(ARGV[4], ARGV[5], digest)
    own_keys[i] = keys[i][1]
end
read_derived_keys(own_keys)
local words, dropped = {}, 0
for i = 1, count do
    local owner = known_id(keys[i], digests[i])
    local why = not owner and refusal(digests[i])
    if owner then
        words[i] = '=' .. owner
    elseif why then
        words[i] = why
        dropped = dropped + (why ~= 'full' and 1 or 0)
    else
        words[i] = add_entry(KEYS[1], ARGV[BEFORE + i], ARGV[BEFORE + count + i])
        remember_id(keys[i], digests[i], words[i], WINDOW)
        room = room - 1
    end
end
if dropped > 0 then
    redis.call('HINCRBY', KEYS[2], POLICY, dropped)
end
return table.concat(words, ' ')
