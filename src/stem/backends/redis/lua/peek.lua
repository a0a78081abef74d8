-- needs: call tasks space
-- Broker.peek: what waits: the ready in claim order, then the delayed by when they are due. Only moves due tasks to the ready.
-- INPUT {queue, limit}
-- Reply, packed: {{id, name, queue, priority, attempt, due, body}, …}
promote({ INPUT.queue }, 5000)
local ids = redis.call('ZRANGE', PREFIX .. 'ready:' .. INPUT.queue, 0, INPUT.limit - 1)
if #ids < INPUT.limit then
  for _, member in ipairs(redis.call('ZRANGE', PREFIX .. 'delayed:' .. INPUT.queue, 0, INPUT.limit - #ids - 1)) do
    ids[#ids + 1] = delayed_id(member)
  end
end
read(ids)
local peeked = {}
for i, body in ipairs(fetch('b:', ids)) do
  local task = tasks[ids[i]]
  if task then
    peeked[#peeked + 1] = {
      task[ID], task[NAME], task[QUEUE], task[PRIORITY], task[ATTEMPT], task[DUE], body or '',
    }
  end
end
return cmsgpack.pack(peeked)
