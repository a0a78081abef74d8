-- needs: call tasks entry log endings write_batch
-- Broker.purge, one step: cancel waiting tasks of the queue, ready ones first.
-- INPUT {queue, limit, error and data as JSON}
-- Reply: how many tasks left the queue.
local first = redis.call('ZRANGE', PREFIX .. 'ready:' .. INPUT.queue, 0, INPUT.limit - 1)
local ids, later = { unpack(first) }, {}
if #first < INPUT.limit then
  later = redis.call('ZRANGE', PREFIX .. 'delayed:' .. INPUT.queue, 0, INPUT.limit - #first - 1)
  for _, member in ipairs(later) do
    ids[#ids + 1] = delayed_id(member)
  end
end
read(ids)
for _, id in ipairs(ids) do
  local task = tasks[id]
  if task and not TERMINAL[task[STATE]] then
    finish(task, 'cancelled', INPUT.error)
    tell('revoked', task, NOW, INPUT.data)
  end
end
spread(first, 'ZREM', PREFIX .. 'ready:' .. INPUT.queue)
spread(later, 'ZREM', PREFIX .. 'delayed:' .. INPUT.queue)
commit()
return #ids
