-- needs: call tasks entry log endings awaited write_batch prerequisites
-- Part of Broker.claim: end those of the tasks that have expired in their queue, where that may concern others.
-- INPUT {ids, error as JSON}
-- Reply: how many were ended.
local ids, failure = unpack(INPUT)
local count = 0
read(ids)
for _, id in ipairs(ids) do
  local task = tasks[id]
  if task and task[EXPIRES] and task[EXPIRES] <= NOW and not task[HELD] and leave_queue(task) then
    finish(task, 'cancelled', failure)
    tell('expired', task, NOW)
    count = count + 1
  end
end
carry_on()
commit()
return count
