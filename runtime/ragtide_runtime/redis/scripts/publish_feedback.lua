-- Adds feedback items, each with its probe in one step, so that Redis loses the probe if it loses the entry. The entry
-- itself cannot be the probe: it is trimmed as soon as the aggregator has it.
-- uses: entries
-- KEYS: feedback, the probe of each item. ARGV: ms for which the probes are kept, the feedback items.
-- reply: a word for each item: its entry; '=' and its entry if it was there before. Safe to repeat while the probes are
-- kept.
local words = {}
for i = 2, #KEYS do
    local entry = redis.call('GET', KEYS[i])
    if entry then
        words[i - 1] = '=' .. entry
    else
        entry = add_entry(KEYS[1], ARGV[i])
        redis.call('SET', KEYS[i], entry, 'PX', ARGV[1])
        words[i - 1] = entry
    end
end
return table.concat(words, ' ')
