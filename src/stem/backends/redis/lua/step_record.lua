-- needs: call tasks entry log endings awaited write_batch steps
-- Steps.record: keep the result of a step, the first of its name, if the lease is still good.
-- INPUT {id, fence, name, payload as JSON, data of the event as JSON}
-- Reply: 1; 0 if the lease is refused, and nothing was written.
local id, fence, name, payload, data = unpack(INPUT)
read({ id })
local task = held(id, fence)
if not task then
  return 0
end
if put_step(task, name, payload) then
  tell('step', task, NOW, data)
end
commit()
return 1
