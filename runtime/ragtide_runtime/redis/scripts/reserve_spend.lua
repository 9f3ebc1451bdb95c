-- Reserves dollars in an hour and a day, unless a limit would be exceeded; the first refusal fires an alert.
-- uses: entries, time
-- KEYS: spent this hour, spent this day, alert that fires, alerts, calls in flight of this day, limit that is reached.
-- ARGV: amount, limit of the hour, limit of the day (-1: none), alert to fire, id of the reservation, ms for which a
--       call without an answer counts as in flight.
-- reply: {'ok', 'wait', 'hour' or 'day', the alert that fires although calls are made again, which the caller resolves}.
--
-- A limit that is reached stays reached until its period ends or the limit changes, also for a cheaper call that would
-- still fit. It is reached when the ended calls leave no room for the amount. While only the reservations of calls in
-- flight, which may cost less, leave no room, the caller asks again ('wait').
local hour, day = tonumber(redis.call('GET', KEYS[1]) or 0), tonumber(redis.call('GET', KEYS[2]) or 0)
local amount, hour_limit, day_limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local function refuse(period)
    if not redis.call('GET', KEYS[3]) then
        redis.call('SET', KEYS[3], ARGV[4])
        add_entry(KEYS[4], ARGV[4])
    end
    return {period, ''}
end
-- The dollars of calls in flight, of this hour and of this day. What a process that died had reserved counts as spent.
local function in_flight()
    local of_hour, of_day = 0, 0
    local calls = redis.call('HGETALL', KEYS[5])
    for place = 1, #calls, 2 do
        local ends, usd, reserved_in = string.match(calls[place + 1], '^(%d+) (%S+) (.+)$')
        if not ends or tonumber(ends) <= now then
            redis.call('HDEL', KEYS[5], calls[place])
        else
            of_day = of_day + tonumber(usd)
            if reserved_in == KEYS[1] then of_hour = of_hour + tonumber(usd) end
        end
    end
    return of_hour, of_day
end
local marks = {day = 'day ' .. KEYS[2] .. ' ' .. ARGV[3], hour = 'hour ' .. KEYS[1] .. ' ' .. ARGV[2]}
local reached = redis.call('GET', KEYS[6])
for period, mark in pairs(marks) do
    if reached == mark then return refuse(period) end
end
local over_day = day_limit >= 0 and day + amount > day_limit
local over_hour = hour_limit >= 0 and hour + amount > hour_limit
if over_day or over_hour then
    local of_hour, of_day = in_flight()
    local period = nil
    if over_day and day - of_day + amount > day_limit then
        period = 'day'
    elseif over_hour and hour - of_hour + amount > hour_limit then
        period = 'hour'
    end
    if not period then return {'wait', ''} end
    redis.call('SET', KEYS[6], marks[period], 'EX', 172800)
    return refuse(period)
end
if reached then redis.call('DEL', KEYS[6]) end
redis.call('INCRBYFLOAT', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], 7200)
redis.call('INCRBYFLOAT', KEYS[2], ARGV[1])
redis.call('EXPIRE', KEYS[2], 172800)
redis.call('HSET', KEYS[5], ARGV[5], string.format('%.0f %s %s', now + tonumber(ARGV[6]), ARGV[1], KEYS[1]))
redis.call('EXPIRE', KEYS[5], 172800)
return {'ok', redis.call('GET', KEYS[3]) or ''}
