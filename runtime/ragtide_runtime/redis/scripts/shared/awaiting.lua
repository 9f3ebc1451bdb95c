-- Whether a consumer holds entries that wait for an unavailable labeler.
local function is_awaiting(consumer)
    return string.sub(consumer, 1, #AWAITING) == AWAITING
end
