-- Reserves dollars in an hour and a day, unless a limit would be exceeded; the first refusal fires an alert.
-- uses: entries
-- KEYS: spent this hour, spent this day, alert that fires, alerts.
-- ARGV: amount, limit of the hour, limit of the day (-1: none), alert to fire.
-- reply: {'ok', 'hour' or 'day', the alert that fires although calls are made again, which the caller then resolves}.
local hour, day = tonumber(redis.call('GET', KEYS[1]) or 0), tonumber(redis.call('GET', KEYS[2]) or 0)
local amount, hour_limit, day_limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local over = ''
if day_limit >= 0 and day + amount > day_limit then
    over = 'day'
elseif hour_limit >= 0 and hour + amount > hour_limit then
    over = 'hour'
end
local firing = redis.call('GET', KEYS[3])
if over ~= '' then
    if not firing then
        redis.call('SET', KEYS[3], ARGV[4])
        add_entry(KEYS[4], ARGV[4])
    end
    return {over, ''}
end
redis.call('INCRBYFLOAT', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], 7200)
redis.call('INCRBYFLOAT', KEYS[2], ARGV[1])
redis.call('EXPIRE', KEYS[2], 172800)
return {'ok', firing or ''}
