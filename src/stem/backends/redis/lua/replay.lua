-- needs: call space letters
-- DeadLetters.replay, one stretch: queue matching letters again, each once however many callers try.
-- INPUT as shared/letters.lua says, and {delay, dry_run}
-- Reply, packed: {the sequence number to go on below or '', {ids}}
local found, last = matching()
local ids = {}
for i, task in ipairs(found) do
  ids[i] = task.id
  if not INPUT.dry_run then
    unbury(task)
    task.attempt, task.deaths, task.error, task.finished, task.expires, task.beat = nil, nil, nil, nil, nil, nil
    wait_again(task, NOW + INPUT.delay)
    tell('replayed', task, NOW)
  end
end
commit()
return cmsgpack.pack({ last, ids })
