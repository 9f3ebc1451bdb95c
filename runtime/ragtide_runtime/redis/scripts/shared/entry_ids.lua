-- Entry ids: their order, and the times in them.
local function milliseconds(id)
    return tonumber(string.match(id, '^%d+'))
end
local function before(id, other)
    local ms, number = string.match(id, '^(%d+)-(%d+)')
    local other_ms, other_number = string.match(other, '^(%d+)-(%d+)')
    ms, other_ms = tonumber(ms), tonumber(other_ms)
    return ms < other_ms or (ms == other_ms and tonumber(number) < tonumber(other_number))
end
local function following(id)
    local ms, number = string.match(id, '^(%d+)-(%d+)')
    return ms .. '-' .. string.format('%.0f', tonumber(number) + 1)
end
