-- needs: call tasks entry log endings awaited write_batch steps
-- Steps.send: keep an event for a task, the first of its name, and make the task due if it waits for this event.
-- INPUT {id, event, name of its step, data as JSON}
-- Reply: 1; 0 if the task is unknown or has ended, and nothing was written.
local id, event, name, data = unpack(INPUT)
read({ id })
local task = tasks[id]
if not task or TERMINAL[task[STATE]] then
  return 0
end
put_step(task, name, data)
if task[EVENT] == event and not task[HELD] and leave_queue(task) then
  touch(task)
  task[EVENT], task[DUE] = false, NOW
  enter(id, task[QUEUE], task[PRIORITY], task[SEQ], NOW)
end
commit()
return 1
