-- needs: call space
-- Broker.peek: what waits: the ready in claim order, then the delayed by when they are due. Only moves due tasks to the ready.
-- INPUT {queue, limit}
-- Reply, packed: {{id, name, queue, priority, attempt, due, body}, …}
promote({ INPUT.queue }, 5000)
local ids = redis.call('ZRANGE', PREFIX .. 'ready:' .. INPUT.queue, 0, INPUT.limit - 1)
if #ids < INPUT.limit then
  for _, member in ipairs(redis.call('ZRANGE', PREFIX .. 'delayed:' .. INPUT.queue, 0, INPUT.limit - #ids - 1)) do
    ids[#ids + 1] = member:sub(17)
  end
end
read(ids)
local peeked = {}
for i, body in ipairs(fetch('b:', ids)) do
  local task = tasks[ids[i]]
  if task then
    peeked[#peeked + 1] = { task.id, task.name, task.queue, task.prio, task.attempt or 0, task.due, body or '' }
  end
end
return cmsgpack.pack(peeked)
