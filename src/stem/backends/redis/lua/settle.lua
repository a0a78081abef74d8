-- needs: call tasks entry log endings awaited closing write_batch prerequisites pushing
-- Broker.settle: write each ending whole: record, acknowledgement, meta, events, follow-ups.
-- INPUT {worker, ids of all tasks and follow-ups, checks, awaiting}. ARGV[3] a packed list. Each ending is {id, fence, kind, run,
--   meta, number of its follow-ups, payload, facts}, unless it succeeded also {error, data, delay, died, reason, letter, more}; its
--   follow-ups come next. shared/pushing.lua describes checks, awaiting and follow-ups.
--   `kind` is the event of the ending; payload, facts, error, data and letter are JSON; meta is key → JSON; `more` are the ids
--   for which a blocked task waits, the event for which a requeued one does, or whether a cancelled one passes.
-- Reply, packed: the positions of the refused endings. Or what is missing, with nothing settled, as in push.lua.
local worker, list = INPUT[1], ARGV[3]
awaiting = INPUT[4]
local offset, position, refused = first_item(list), 0, {}

-- The short way, open as long as nothing before it in the batch has looked into the task.
local function end_well(id, fence, run, payload)
  local packed = tasks[id]
  local kept = type(packed) == 'string' and succeed(id, PREFIX .. 't:' .. id, packed, fence, run, payload, worker, closed_links)
  tasks[id] = kept or packed
  return kept
end

-- It stays as it was before the start, and ends when these have ended.
local function wait_for(task, after)
  unlease(task)
  task[WORKER], task[STARTED] = false, false
  task[STATE], task[UPDATED] = task[ATTEMPT] == 0 and 'queued' or 'retried', NOW
  task[ON_FAILURE], task[ENDS] = 'cancel', true
  block(task, after, true)
end

local function settle(id, fence, kind, run, meta, payload, failure, data, delay, died, reason, letter, more)
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
  elseif kind == 'blocked' then
    wait_for(task, more)
  elseif kind == 'revoked' then
    task[PASSES] = more
    finish(task, 'cancelled', failure)
  else
    if kind == 'retried' then
      task[ATTEMPT], task[ERROR] = task[ATTEMPT] + 1, failure
    elseif died then
      task[DEATHS] = task[DEATHS] + 1
    end
    local is_sent = more and redis.call('HEXISTS', PREFIX .. 'steps:' .. id, 'event:' .. more) == 1
    wait_again(task, is_sent and NOW or NOW + delay)
    task[EVENT] = not is_sent and more
  end
  return true
end

read_packed(INPUT[2])
local refusal = missing(INPUT[3])
if refusal then
  return cmsgpack.pack(refusal)
end
while offset >= 0 do
  local behind, id, fence, kind, run, meta, follow_ups, payload, facts = cmsgpack.unpack_limit(list, 8, offset + 1)
  local is_settled, after, blocked_data
  position = position + 1
  if kind ~= 'succeeded' then
    local failure, data, delay, died, reason, letter, more
    behind, failure, data, delay, died, reason, letter, more = cmsgpack.unpack_limit(list, 7, behind)
    after = kind == 'blocked' and more
    blocked_data = data
    is_settled = after and held(id, fence)
      or settle(id, fence, kind, run, meta, payload, failure, data, delay, died, reason, letter, more)
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
  if after and is_settled then -- it may wait for what was pushed
    settle(id, fence, kind, run, meta, false, false, blocked_data, 0, false, '', false, after)
  end
end
carry_on()
commit()
sweep(2 * position)
return cmsgpack.pack(refused)
