-- needs: call
-- Heartbeats.forget: delete the heartbeat of a worker that stops.
-- INPUT the worker
-- Reply: 1 if the worker was known, which means in the set and not expired, as for Heartbeats.all
local until_ = tonumber(redis.call('ZSCORE', PREFIX .. 'workers', INPUT) or 0)
redis.call('DEL', PREFIX .. 'beat:' .. INPUT)
redis.call('ZREM', PREFIX .. 'workers', INPUT)
return until_ > NOW and 1 or 0
