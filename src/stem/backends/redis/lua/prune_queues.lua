-- needs: call
-- Upkeep.prune, one step: forget those of these queues in which no task waits.
-- INPUT the queues
for _, queue in ipairs(INPUT) do
  if redis.call('EXISTS', PREFIX .. 'ready:' .. queue, PREFIX .. 'delayed:' .. queue, PREFIX .. 'blocked:' .. queue) == 0 then
    redis.call('SREM', PREFIX .. 'queues', queue)
  end
end
return 0
