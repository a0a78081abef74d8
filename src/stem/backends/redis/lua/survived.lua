-- needs: call tasks entry log endings awaited write_batch lost
-- Part of start, report, renew and settle: the holders of these leases live, so a reclaim of their tasks counts as no death.
-- INPUT the refused leases, {{id, fence}, …}
local ids = {}
for _, lease in ipairs(INPUT) do
  if redis.call('DEL', lost_key(lease[1], lease[2])) == 1 then
    ids[#ids + 1] = lease[1]
  end
end
read(ids)
for _, id in ipairs(ids) do
  local task = tasks[id]
  if task and not TERMINAL[task[STATE]] and task[DEATHS] > 0 then
    touch(task)
    task[DEATHS] = task[DEATHS] - 1
  end
end
commit()
return #ids
