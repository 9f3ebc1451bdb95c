-- A flat reply (name, value, name, value, ...) as a table by name.
local function by_name(flat)
    local found = {}
    for i = 1, #flat, 2 do
        found[flat[i]] = flat[i + 1]
    end
    return found
end
