-- Finishes entries and adds their metric events (worker/results.py states the order and the reasons). Keeps the
-- interactions of which a specimen is given. An entry that does not count changes nothing for the others.
-- uses: beside_traffic, entries, finishing, known_ids, session_turns, specimens
-- KEYS: interactions, metrics, finished entries, deliveries, rejected entries, open sessions, sizes of sessions, sentinels;
--       for each entry its session if it is a turn, then with a specimen the keys of shared/specimens.lua and of its lists.
-- ARGV: group, dedupe window in ms, feedback window in ms, the four beginnings of the keys of known ids: of owners and of
--       metric events, each of own keys and of buckets; most turns and bytes of a session, and ms for which its turns are
--       kept; then the ids of all entries with a space between, the digests of their interactions (16 bytes each), and a
--       character for each entry: '0' and the sum of 1 with a trace context, 2 for a turn of a session, 4 for the event of
--       a whole session, 8 with a specimen; then the metric events; then for each entry that has them its trace context,
--       its text as a turn, and the number of lists of its specimen with the arguments of keep_specimen.
-- reply: a word for each entry: 'emitted', 'duplicate' or 'finished_before'. With a specimen 'emitted' is followed by ':'
--        and 'kept', 'unneeded' or 'full'. Safe to repeat: the second time the entries are finished.
local GROUP, DEDUPE_MS, FEEDBACK_MS = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local MOST_TURNS, MOST_BYTES, TURNS_MS = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local OPEN, SIZES, SENTINELS = KEYS[6], KEYS[7], KEYS[8]
local DIGESTS, FORMS = ARGV[12], ARGV[13]

local entries, own_keys, key, at = {}, {}, 9, 14 + #FORMS
for id in string.gmatch(ARGV[11], '[^ ]+') do
    local i = #entries + 1
    local form, digest = string.byte(FORMS, i) - 48, string.sub(DIGESTS, 16 * i - 15, 16 * i)
    local entry = {
        id = id, digest = string.sub(digest, 1, DIGEST), event = ARGV[13 + i],
        owner_keys = derived_keys(ARGV[4], ARGV[5], digest), event_keys = derived_keys(ARGV[6], ARGV[7], digest),
        is_whole = form % 8 >= 4
    }
    entries[i], own_keys[2 * i - 1], own_keys[2 * i] = entry, entry.owner_keys[1], entry.event_keys[1]
    if form % 2 >= 1 then
        entry.traceparent, at = ARGV[at], at + 1
    end
    if form % 4 >= 2 then
        entry.session, key, entry.turn, at = KEYS[key], key + 1, ARGV[at], at + 1
    end
    if form >= 8 then
        entry.lists, entry.specimen_at, entry.specimen_keys = tonumber(ARGV[at]), at + 1, key
        at, key = at + 9 + 3 * entry.lists, key + 7 + entry.lists
    end
end
read_derived_keys(own_keys)
-- Finished entries leave the set when they are trimmed, and may come back with an older copy of the stream.
local doubtful = redis.call('HGET', KEYS[4], DELIVERIES_DOUBTFUL)
local rejections = redis.call('EXISTS', KEYS[5]) == 1

-- Whether the entry has a dead letter, or the interaction a metric event of this entry and not of an earlier one.
local function has_result(entry)
    if rejections and redis.call('ZSCORE', KEYS[5], entry.id) then return true end
    local event = known_id(entry.event_keys, entry.digest)
    if not event then return false end
    local found = redis.call('XRANGE', KEYS[2], event, event)
    for i = 1, found[1] and #found[1][2] or 0, 2 do
        if found[1][2][i] == DATA_FIELD then
            return string.find(found[1][2][i + 1], '"entry_id":"' .. entry.id .. '"', 1, true) ~= nil
        end
    end
    -- The event was trimmed. It is later than the entry that it scores.
    return before(entry.id, event)
end

local function deliver(entry)
    local owner = known_id(entry.owner_keys, entry.digest)
    if owner and owner ~= entry.id then
        return 'duplicate'
    end
    if not finish(GROUP, entry.id, 3, 4) then
        return 'finished_before'
    end
    if not (doubtful and before(doubtful, entry.id)) and has_result(entry) then
        count_again(4)
        return 'finished_before'
    end
    if not owner then
        remember_id(entry.owner_keys, entry.digest, entry.id, DEDUPE_MS)
    end
    local event
    if entry.is_whole then
        event = add_event_beside_traffic(KEYS[2], SENTINELS, entry.event, entry.traceparent)
    else
        event = add_entry(KEYS[2], entry.event, entry.traceparent)
    end
    if entry.session then
        add_turn(entry.session, OPEN, SIZES, entry.turn, entry.id, MOST_TURNS, MOST_BYTES, TURNS_MS)
    end
    remember_id(entry.event_keys, entry.digest, event, FEEDBACK_MS)
    if entry.lists then
        return 'emitted:' .. keep_specimen(entry.specimen_keys, entry.specimen_at, entry.lists)
    end
    return 'emitted'
end

local outcomes = {}
for i, entry in ipairs(entries) do
    outcomes[i] = deliver(entry)
end
return table.concat(outcomes, ' ')
