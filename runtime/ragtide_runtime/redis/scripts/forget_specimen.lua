-- Deletes a specimen and everything that names it.
-- uses: specimens
-- KEYS: those of shared/specimens.lua, then the lists of the pipeline.
-- ARGV: digest of the interaction, base of the keys of specimens, pipeline.
-- reply: 1 if it was there, else 0.
local there = redis.call('EXISTS', KEYS[1])
redis.call('HDEL', KEYS[7], ARGV[1]) -- also if an alert has pinned it
drop_specimen(1, ARGV[2], ARGV[1])
for i = 8, #KEYS do
    redis.call('ZREM', KEYS[i], ARGV[1])
end
settle_usage(1, ARGV[3])
return there
