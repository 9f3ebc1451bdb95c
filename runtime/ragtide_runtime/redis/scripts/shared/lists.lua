-- Lists in ARGV, each after its length: calls visit with the place of each item; visit returns how many it has read.
-- Returns the place after the list.
local function each_in_list(at, visit)
    local last = at + tonumber(ARGV[at])
    at = at + 1
    while at <= last do
        at = at + visit(at)
    end
    return at
end
