-- needs: call tasks entry log endings space
-- Broker.find: one task that waits or runs.
-- INPUT {id}
-- Reply, packed: as peek's, with one task or none
read({ INPUT.id })
local task = tasks[INPUT.id]
if not task or TERMINAL[task[STATE]] then
  return cmsgpack.pack({})
end
local body = bodies_of({ task })[1]
return cmsgpack.pack({ { task[ID], task[NAME], task[QUEUE], task[PRIORITY], task[ATTEMPT], task[DUE], body } })
