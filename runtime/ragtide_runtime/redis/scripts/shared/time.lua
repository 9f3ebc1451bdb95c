-- The server's time in milliseconds, the same during one call of a script.
local time_ms
local function now_ms()
    if not time_ms then
        local time = redis.call('TIME')
        time_ms = time[1] * 1000 + math.floor(time[2] / 1000)
    end
    return time_ms
end
