-- The numbers of one hour about traces and their interactions, by outcome and service.
local MOST_FIELDS, KEPT_MS = 2000, 7200000
-- Counts one, and returns the number so far. Services above a number share one count, that of the service without a name.
local function count_outcome(key, beginning, outcome, service)
    local field = outcome .. ':' .. service
    if redis.call('HEXISTS', key, beginning .. field) == 0 and redis.call('HLEN', key) >= MOST_FIELDS then
        field = outcome .. ':'
    end
    redis.call('PEXPIRE', key, KEPT_MS)
    return redis.call('HINCRBY', key, beginning .. field, 1), field
end
