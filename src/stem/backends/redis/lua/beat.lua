-- needs: call
-- Heartbeats.beat: replace the last heartbeat of the worker; it expires after its time.
-- INPUT {worker, ttl in milliseconds, heartbeat as JSON}
local key = PREFIX .. 'beat:' .. INPUT.worker
if INPUT.ttl <= 0 then
  redis.call('DEL', key)
  redis.call('ZREM', PREFIX .. 'workers', INPUT.worker)
  return 0
end
redis.call('SET', key, cmsgpack.pack({ NOW, INPUT.beat }), 'PX', INPUT.ttl)
redis.call('ZREMRANGEBYSCORE', PREFIX .. 'workers', '-inf', NOW)
redis.call('ZADD', PREFIX .. 'workers', NOW + INPUT.ttl * 1000, INPUT.worker)
outlive(PREFIX .. 'workers', INPUT.ttl)
return 1
