-- needs: call tasks entry log endings awaited write_batch prerequisites
-- Broker.cancel: end those of the tasks that wait, for others as well, and leave the rest alone.
-- INPUT {ids, error and data as JSON}
-- Reply, packed: the ids of the cancelled tasks.
local cancelled = {}
read(INPUT.ids)
for _, id in ipairs(INPUT.ids) do
  local task = tasks[id]
  if task and not task[HELD] and not TERMINAL[task[STATE]] and (task[PENDING] or leave_queue(task)) then
    cancel(task, INPUT.error, INPUT.data)
    cancelled[#cancelled + 1] = id
  end
end
carry_on()
commit()
return cmsgpack.pack(cancelled)
