-- needs: call tasks entry log endings awaited write_batch prerequisites pushing
-- Broker.insert_dead: store calls that were run and given up elsewhere as dead letters; a known id is left alone.
-- INPUT {worker, ids}. ARGV[3] the calls in the same order, a packed list. Each call has the fields of a push, which
--   shared/pushing.lua names, without prerequisites: it was run. Then attempt, run, error, data, reason, letter; error, data and letter are JSON.
-- Reply, packed: for each call true if it was stored, false if its id was known.
local worker, list = INPUT[1], ARGV[3]
local offset, made = first_item(list), {}

-- The task as a push would have stored it, in no queue.
local function new_task(first, behind, options, id)
  local expires, visible, large = false, false, false
  if options then
    expires, visible, large = options[4], options[5], options[8]
  end
  if large then
    bodies[#bodies + 1] = PREFIX .. 'b:' .. id
    bodies[#bodies + 1] = large
  end
  local seq = number('seq')
  indexed[entries + 1], indexed[entries + 2] = seq, id
  entries = entries + 2
  return thaw(
    new_front(expires, visible, large and true) .. cmsgpack.pack(seq) .. list:sub(first, behind) .. new_back(NOW)
  )
end

read_packed(INPUT[2])
for i, id in ipairs(INPUT[2]) do
  local begin = offset + 1
  local options_end, options = cmsgpack.unpack_limit(list, 1, begin)
  local pushed_end = cmsgpack.unpack_limit(list, PUSHED, begin)
  local behind, attempt, run, failure, data, reason, letter = cmsgpack.unpack_limit(list, 6, pushed_end)
  offset, made[i] = behind, not is_taken(id)
  if made[i] then
    if tasks[id] then -- an outlived one
      drop_links(id)
    end
    local task = new_task(options_end + 1, pushed_end, options, id)
    tasks[id], task.tenant = task, tenant_in(task[BODY] or options and options[8])
    tell('enqueued', task, NOW)
    touch(task)
    task[WORKER], task[ATTEMPT] = worker, attempt
    if run then
      start(task, worker, NOW - run)
    end
    fail(task, reason, failure, letter, data)
  end
end
commit()
return cmsgpack.pack(made)
