-- needs: call tasks entry log endings awaited write_batch prerequisites
-- Broker.purge, one step: cancel waiting tasks of the queue: blocked ones first, so that they are not cancelled for those
-- that they wait for, then ready ones.
-- INPUT {queue, limit, error and data as JSON}
-- Reply: how many tasks left the queue.
local ids = {}

-- The first of a sorted set, as many as are still wanted, which leave it.
local function take(kind, id_of)
  local key = PREFIX .. kind .. INPUT.queue
  local members = #ids < INPUT.limit and redis.call('ZRANGE', key, 0, INPUT.limit - #ids - 1) or {}
  for _, member in ipairs(members) do
    ids[#ids + 1] = id_of and id_of(member) or member
  end
  spread(members, 'ZREM', key)
end

take('blocked:')
take('ready:')
take('delayed:', delayed_id)
read(ids)
for _, id in ipairs(ids) do
  local task = tasks[id]
  if task and not TERMINAL[task[STATE]] then
    cancel(task, INPUT.error, INPUT.data)
  end
end
carry_on()
commit()
return #ids
