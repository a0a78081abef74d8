-- needs: call tasks entry log endings closing write_batch
-- Broker.settle: write each ending whole: record, acknowledgement, meta, events, follow-ups.
-- INPUT {worker, ids of all tasks and follow-ups}. ARGV[3] a packed list. Each ending is {id, fence, kind, run, meta, number of
--   its follow-ups, payload, facts}, unless it succeeded also {error, data, delay, died, reason, letter}; its follow-ups come
--   next, as push.lua reads them.
--   `kind` is the event of the ending; payload, facts, error, data and letter are JSON; meta is key → JSON.
-- Reply, packed: the positions of the refused endings.
local worker, list = INPUT[1], ARGV[3]
local offset, position, refused = first_item(list), 0, {}

-- The short way, open as long as nothing before it in the batch has looked into the task.
local function end_well(id, fence, run, payload)
  local packed = tasks[id]
  local kept = type(packed) == 'string' and succeed(id, PREFIX .. 't:' .. id, packed, fence, run, payload, worker)
  tasks[id] = kept or packed
  return kept
end

local function settle(id, fence, kind, run, meta, payload, failure, data, delay, died, reason, letter)
  local task = held(id, fence)
  if not task then
    return false
  end
  if run and task[STATE] ~= 'running' then
    start(task, worker, NOW - run)
  end
  touch(task)
  task[WORKER], task[UPDATED] = worker, NOW
  if meta then
    for key, value in pairs(meta) do
      note(task, key, value)
    end
  end
  if kind ~= 'failed' then
    tell(kind, task, NOW, data)
  end
  if kind == 'succeeded' then
    finish(task, 'succeeded', false)
    task[PAYLOAD] = payload
  elseif kind == 'failed' then
    fail(task, reason, failure, letter, data)
  elseif kind == 'revoked' then
    finish(task, 'cancelled', failure)
  else
    if kind == 'retried' then
      task[ATTEMPT], task[ERROR] = task[ATTEMPT] + 1, failure
    elseif died then
      task[DEATHS] = task[DEATHS] + 1
    end
    wait_again(task, NOW + delay)
  end
  return true
end

read_packed(INPUT[2])
while offset >= 0 do
  local behind, id, fence, kind, run, meta, follow_ups, payload, facts = cmsgpack.unpack_limit(list, 8, offset + 1)
  local is_settled
  position = position + 1
  if kind ~= 'succeeded' then
    local failure, data, delay, died, reason, letter
    behind, failure, data, delay, died, reason, letter = cmsgpack.unpack_limit(list, 6, behind)
    is_settled = settle(id, fence, kind, run, meta, payload, failure, data, delay, died, reason, letter)
  else
    is_settled = not meta and not facts and end_well(id, fence, run, payload)
      or settle(id, fence, kind, run, meta, payload, false, facts or nil)
  end
  offset = behind
  if not is_settled then
    refused[#refused + 1] = position
  end
  for _ = 1, follow_ups do
    if is_settled then
      behind, offset = push(list, offset)
    else
      offset = cmsgpack.unpack_limit(list, PUSHED, offset + 1)
    end
  end
end
commit()
sweep(2 * position)
return cmsgpack.pack(refused)
