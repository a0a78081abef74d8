-- needs: call tasks entry log endings write_batch
-- Broker.cancel: end those of the tasks that wait, and leave the others alone.
-- INPUT {ids, error and data as JSON}
-- Reply, packed: the ids of the cancelled tasks.
local function leave_queue(task)
  local member = string.format('%015d%d', task[SEQ], task[PRIORITY]) .. task[ID]
  return redis.call('ZREM', PREFIX .. 'ready:' .. task[QUEUE], task[ID])
    + redis.call('ZREM', PREFIX .. 'delayed:' .. task[QUEUE], member) > 0
end

local cancelled = {}
read(INPUT.ids)
for _, id in ipairs(INPUT.ids) do
  local task = tasks[id]
  if task and not task[HELD] and not TERMINAL[task[STATE]] and leave_queue(task) then
    finish(task, 'cancelled', INPUT.error)
    tell('revoked', task, NOW, INPUT.data)
    cancelled[#cancelled + 1] = id
  end
end
commit()
return cmsgpack.pack(cancelled)
