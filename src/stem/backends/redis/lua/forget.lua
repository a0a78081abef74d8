-- needs: call
-- Heartbeats.forget: a worker said goodbye. Known is who stands in the set with time left, as for Heartbeats.all.
-- INPUT the worker
-- Reply: 1 if it was known
local until_ = tonumber(redis.call('ZSCORE', PREFIX .. 'workers', INPUT) or 0)
redis.call('DEL', PREFIX .. 'beat:' .. INPUT)
redis.call('ZREM', PREFIX .. 'workers', INPUT)
return until_ > NOW and 1 or 0
