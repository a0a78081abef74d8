-- needs: call tasks entry log endings space
-- Broker.report: log a heartbeat or progress, and keep the latest in the record.
-- INPUT {reports = {{id, fence, progress as JSON or false, how long it has run}, …}, worker}
-- Reply, packed: the positions of the refused.
local ids, refused = {}, {}
for i, report in ipairs(INPUT.reports) do
  ids[i] = report[1]
end
read(ids)
for i, report in ipairs(INPUT.reports) do
  local task, progress = held(report[1], report[2]), report[3]
  if not task then
    refused[#refused + 1] = i
  else
    if task[STATE] ~= 'running' then
      start(task, INPUT.worker, NOW - report[4])
    end
    touch(task)
    task[BEAT], task[UPDATED] = NOW, NOW
    if progress then
      note(task, 'progress', progress)
      tell('progress', task, NOW, progress)
    else
      tell('heartbeat', task, NOW)
    end
  end
end
commit()
return cmsgpack.pack(refused)
