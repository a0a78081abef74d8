-- needs: call space
-- Broker.settle: write each ending whole: record, acknowledgement, meta, events, follow-ups.
-- INPUT {worker, endings = {{id, fence, kind, run?, meta?, payload?, error?, data?, delay?, died?, reason?, letter?, pushes?}, …}}
--   `kind` is the event that tells of it; payload, error, data and letter are JSON; meta is key → JSON.
-- Reply, packed: the positions of the refused.
local END = {
  succeeded = function(task, ending)
    finish(task, 'succeeded')
    task.payload = ending.payload
  end,
  retried = function(task, ending)
    task.attempt = (task.attempt or 0) + 1
    task.error = ending.error
    wait_again(task, NOW + ending.delay)
  end,
  failed = function(task, ending)
    bury(task, ending.reason, ending.error, ending.letter, ending.data)
  end,
  requeued = function(task, ending)
    if ending.died then
      task.deaths = (task.deaths or 0) + 1
    end
    wait_again(task, NOW + ending.delay)
  end,
  revoked = function(task, ending)
    finish(task, 'cancelled', ending.error)
  end,
}
END.throttled = END.requeued

local ids, refused = {}, {}
for _, ending in ipairs(INPUT.endings) do
  ids[#ids + 1] = ending.id
  for _, pushed in ipairs(ending.pushes or {}) do
    ids[#ids + 1] = pushed.id
  end
end
read(ids)
for i, ending in ipairs(INPUT.endings) do
  local task = held(ending.id, ending.fence)
  if not task then
    refused[#refused + 1] = i
  else
    if ending.run and task.state ~= 'running' then
      start(task, INPUT.worker, NOW - ending.run)
    end
    touch(task)
    task.worker, task.updated = INPUT.worker, NOW
    if ending.meta then
      task.meta = task.meta or {}
      for key, value in pairs(ending.meta) do
        task.meta[key] = value
      end
    end
    if ending.kind ~= 'failed' then
      tell(ending.kind, task, NOW, ending.data)
    end
    END[ending.kind](task, ending)
    for _, pushed in ipairs(ending.pushes or {}) do
      push(pushed)
    end
  end
end
commit()
sweep(2 * #INPUT.endings)
return cmsgpack.pack(refused)
