-- needs: call
-- Broker.depth: count the tasks of each queue exactly.
-- INPUT the queues
-- Reply, packed: {{queue, ready, delayed, running, dead, blocked}, …}
local counts = {}
for i, queue in ipairs(INPUT) do
  local due = redis.call('ZCOUNT', PREFIX .. 'delayed:' .. queue, '-inf', NOW)
  counts[i] = {
    queue,
    redis.call('ZCARD', PREFIX .. 'ready:' .. queue) + due,
    redis.call('ZCARD', PREFIX .. 'delayed:' .. queue) - due,
    tonumber(redis.call('HGET', PREFIX .. 'running', queue) or 0),
    tonumber(redis.call('HGET', PREFIX .. 'buried', queue) or 0),
    redis.call('ZCARD', PREFIX .. 'blocked:' .. queue),
  }
end
return cmsgpack.pack(counts)
