-- Whether a consumer holds entries that wait for an unavailable labeler.
local function is_awaiting(consumer)
    return string.sub(consumer, 1, #AWAITING) == AWAITING
end
-- Whether they wait because the labeler has reached its spend limit.
local function awaits_budget(consumer)
    return string.match(consumer, '^' .. AWAITING .. '%a+%$:') ~= nil
end
