-- needs: call
-- Limiter.hold: renew the holder's place, or take a free one, in order.
-- INPUT {{key, holder, limit, ttl}, …}
-- Reply: for each place 1, or 0 if none is free.
local swept = {} -- keys from which the places of the dead have gone

local function hold(name, holder, limit, ttl)
  local key = PREFIX .. 'places:' .. name
  if not swept[key] then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', NOW)
    swept[key] = true
  end
  if not redis.call('ZSCORE', key, holder) and redis.call('ZCARD', key) >= limit then
    return 0
  end
  redis.call('ZADD', key, NOW + ttl, holder)
  outlive(key, math.ceil(ttl / 1000))
  return 1
end

local answers = {}
for i, place in ipairs(INPUT) do
  answers[i] = hold(unpack(place))
end
return answers
