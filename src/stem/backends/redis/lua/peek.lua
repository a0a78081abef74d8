-- needs: call tasks entry log endings awaited write_batch
-- Broker.peek: list waiting tasks: ready ones in claim order, then delayed ones by due time. Moves due tasks to the ready ones.
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
local waiting, peeked = {}, {}
for _, id in ipairs(ids) do
  waiting[#waiting + 1] = tasks[id] or nil
end
for i, body in ipairs(bodies_of(waiting)) do
  local task = waiting[i]
  peeked[i] = { task[ID], task[NAME], task[QUEUE], task[PRIORITY], task[ATTEMPT], task[DUE], body }
end
return cmsgpack.pack(peeked)
