-- needs: call tasks entry log endings awaited write_batch
-- Broker.report: log a heartbeat or progress, and keep the latest in the record.
-- INPUT {reports = {{id, fence, progress as JSON or false, how long the task has run}, …}, worker}
-- Reply, packed: the positions of the refused reports.
local ids, refused = {}, {}
for i, given in ipairs(INPUT.reports) do
  ids[i] = given[1]
end
read(ids)
for i, given in ipairs(INPUT.reports) do
  local task, progress = held(given[1], given[2]), given[3]
  if not task then
    refused[#refused + 1] = i
  else
    if task[STATE] ~= 'running' then
      start(task, INPUT.worker, NOW - given[4])
    end
    touch(task)
    task[BEAT], task[UPDATED] = NOW, NOW
    if progress then
      note(task, 'progress', progress)
      report('progress', task, progress)
    else
      report('heartbeat', task)
    end
  end
end
commit()
return cmsgpack.pack(refused)
