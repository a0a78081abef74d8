-- needs: call tasks entry log endings awaited write_batch letters
-- DeadLetters.replay, one stretch: queue matching letters again, each once, however many callers try.
-- INPUT as in shared/letters.lua, and {delay, dry_run, at = now as JSON}
-- Reply, packed: {the sequence number below which to continue, '' at the end; {ids}}
local found, last = matching()
local ids = {}
for i, task in ipairs(found) do
  ids[i] = task[ID]
  if not INPUT.dry_run then
    remove_letter(task)
    task[ATTEMPT], task[DEATHS], task[ERROR] = 0, 0, false
    task[FINISHED], task[EXPIRES], task[BEAT] = false, false, false
    local replays = task[META] and tonumber(task[META].replayCount) or 0
    note(task, 'replayCount', string.format('%d', replays + 1))
    note(task, 'lastReplayAt', INPUT.at)
    wait_again(task, NOW + INPUT.delay)
    tell('replayed', task, NOW)
  end
end
commit()
return cmsgpack.pack({ last, ids })
