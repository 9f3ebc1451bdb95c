-- Copies groups of known ids into a bucket; an id that is there already stays as it is.
-- uses: known_ids
-- KEYS: the bucket. ARGV: ms for which it is kept at least, groups of ids.
-- reply: 1. Safe to repeat.
for i = 2, #ARGV do
    for at = 1, #ARGV[i], WIDTH do
        local digest = string.sub(ARGV[i], at, at + DIGEST - 1)
        local index, groups = group_of(KEYS[1], digest)
        if groups == 0 or not place_in(redis.call('HGET', KEYS[1], index) or '', digest) then
            put_id(KEYS[1], digest, string.sub(ARGV[i], at + DIGEST, at + WIDTH - 1), tonumber(ARGV[1]))
        end
    end
end
return 1
