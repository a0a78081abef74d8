-- needs: call tasks entry log endings awaited write_batch
-- Broker.find: return a task that waits, for others as well, or runs; also one that may be revived.
-- INPUT {id}
-- Reply, packed: as the reply of peek.lua, with one task or none
read({ INPUT.id })
local task = tasks[INPUT.id]
if not task or TERMINAL[task[STATE]] and not task[PENDING] then
  return cmsgpack.pack({})
end
local body = bodies_of({ task })[1]
return cmsgpack.pack({ { task[ID], task[NAME], task[QUEUE], task[PRIORITY], task[ATTEMPT], task[DUE], body } })
