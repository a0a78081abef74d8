-- Let tasks wait for others, and carry the end of a task to those that wait for it; core/prerequisites.py says what it means.
-- `pending:<id>` and `blocked:<queue>` are written at once, because one script may block a task and release it.
local CASCADE, TOLD_AT_ONCE = 5000, 1000 -- tasks that one call cancels because another failed; dependents read at a time
local MAX_CAUSE = 300 -- characters of the first cause's message
local fresh = {} -- tasks pushed by this script whose dependents in the same batch have been written with them

local function has_succeeded(task)
  return task[STATE] == 'succeeded' or task[PASSES]
end

-- It waits for others no longer, and cannot be revived.
local function unblock(task)
  if task[PENDING] then
    touch(task)
    task[PENDING] = false
    redis.call('DEL', PREFIX .. 'pending:' .. task[ID])
    redis.call('ZREM', PREFIX .. 'blocked:' .. task[QUEUE], task[ID])
  end
end

local function cancel(task, failure, data)
  unblock(task)
  finish(task, 'cancelled', failure)
  tell('revoked', task, NOW, data)
end

local function cancel_because(task, reason)
  cancel(
    task,
    cjson.encode({ type = 'Cancelled', message = reason, stack = '', retryable = false }),
    cjson.encode({ reason = reason })
  )
end

local function first_characters(text, count)
  local found = {}
  for character in text:gmatch('[%z\1-\127\194-\244][\128-\191]*') do
    found[#found + 1] = character
    if #found == count then
      break
    end
  end
  return table.concat(found)
end

-- The error, and the data of the event, of tasks that are cancelled because this one failed. The first cause is passed on.
local function failure_of(task)
  if not task.failure then
    local is_read, given = pcall(cjson.decode, task[ERROR] or '')
    local is_told = is_read and type(given) == 'table' and type(given.type) == 'string' and type(given.message) == 'string'
    local cause = task[ID]
    if is_told and task[STATE] == 'cancelled' and given.type == 'PrerequisiteFailed' then
      task.failure, cause = task[ERROR], given.message:match('^[^ ]*')
    else
      local how = task[STATE] == 'failed' and 'failed' or 'was cancelled'
      local said = is_told and given.type .. ': ' .. first_characters(given.message, MAX_CAUSE) or 'no reason recorded'
      task.failure = cjson.encode({
        type = 'PrerequisiteFailed',
        message = string.format('%s (%s) %s: %s', task[ID], task[NAME], how, said),
        stack = '',
        retryable = false,
      })
    end
    task.failure_data = cjson.encode({ reason = 'prerequisite-failed', cause = cause })
  end
  return task.failure, task.failure_data
end

-- It can be revived: it goes on counting.
local function cancel_for(task, prerequisite)
  local failure, data = failure_of(prerequisite)
  redis.call('ZREM', PREFIX .. 'blocked:' .. task[QUEUE], task[ID])
  finish(task, 'cancelled', failure)
  tell('revoked', task, NOW, data)
end

-- End a task that runs nothing, or nothing more. Where its payload begins in its body, and how long it is, its push has said.
local function join(task)
  local place = task[ENDS]
  local body = place ~= true and bodies_of({ task })[1]
  task[PAYLOAD] = body and body ~= '' and body:sub(place[1], place[1] + place[2] - 1) or 'null'
  task[ENDS] = true
  finish(task, 'succeeded', false)
  tell('joined', task, NOW)
end

local function release_task(task, has_failed)
  unblock(task)
  if task[ON_FAILURE] == 'only' and not has_failed then
    cancel_because(task, 'not-needed')
  elseif task[ENDS] then
    join(task)
  else
    task[FINISHED], task[ERROR] = false, false
    wait_again(task, task[RELEASE_DELAY] and NOW + task[RELEASE_DELAY] or task[DUE] or NOW)
    tell('released', task, NOW)
  end
end

-- Write a task that may have ended; as a change, an ended one would end again. One that has changed is written anyway.
local function rewrite(task)
  if task[FORMAT] == UNCHANGED then
    write(PREFIX .. 't:' .. task[ID], freeze(task))
  end
end

local function add_dependent(task, id)
  local list, awaited = PREFIX .. 'dependents:' .. task[ID], task[AWAITED]
  if awaited == id then
    return
  elseif awaited == true then
    redis.call('RPUSH', list, id)
    return
  elseif awaited then
    redis.call('RPUSH', list, awaited, id)
  end
  task[AWAITED] = awaited and true or id
  rewrite(task)
end

-- Note for whom the task waits, all of which have been read. Returns the ids that are pending, and the first that has failed
-- already, unless a failure just counts.
local function pending_of(task, after)
  local pending, seen, failed_one = {}, {}, nil
  for _, other in ipairs(after) do
    local is_new = fresh[other] and type(tasks[other]) == 'string'
    local prerequisite = not is_new and not seen[other] and known(other)
    if prerequisite and not fresh[other] then
      add_dependent(prerequisite, task[ID])
    end
    if is_new and not seen[other] or prerequisite and not TERMINAL[prerequisite[STATE]] then
      pending[#pending + 1] = other
    elseif prerequisite and not has_succeeded(prerequisite) and task[ON_FAILURE] ~= 'run' then
      pending[#pending + 1] = other
      failed_one = failed_one or prerequisite
    end
    seen[other] = true
  end
  return pending, failed_one
end

-- Let a task wait for others; false if it need not and is still to be queued.
local function block(task, after, is_told)
  local pending, failed_one = pending_of(task, after)
  local runs_only_on_failure = task[ON_FAILURE] == 'only' and #after > 0
  if #pending > 0 and not (failed_one and runs_only_on_failure) then
    touch(task)
    task[PENDING] = true
    spread(pending, 'SADD', PREFIX .. 'pending:' .. task[ID])
  end
  if failed_one and not runs_only_on_failure then
    cancel_for(task, failed_one)
  elseif #pending > 0 and not failed_one then
    redis.call('ZADD', PREFIX .. 'blocked:' .. task[QUEUE], task[SEQ], task[ID])
    redis.call('SADD', PREFIX .. 'queues', task[QUEUE])
    if not is_told then
      tell('blocked', task, NOW, string.format('{"missing":%d}', #pending))
    end
  elseif runs_only_on_failure and not failed_one then
    cancel_because(task, 'not-needed')
  elseif task[ENDS] then
    join(task)
  else
    return false
  end
  return true
end

local function count_down(id, ids)
  local pending = PREFIX .. 'pending:' .. id
  if spread(ids, 'SREM', pending) > 0 and redis.call('EXISTS', pending) == 0 then
    read({ id })
    if tasks[id] and tasks[id][PENDING] then
      release_task(tasks[id], false)
    end
  end
end

-- Carry a failure to one dependent; returns whether that is to be cancelled for it, which `may_cancel` allows.
local function fail_for(task, prerequisite, may_cancel)
  local id = prerequisite[ID]
  if not task or not task[PENDING] or redis.call('SISMEMBER', PREFIX .. 'pending:' .. task[ID], id) == 0 then
    return false
  end
  if task[ON_FAILURE] == 'run' then
    count_down(task[ID], { id })
  elseif task[ON_FAILURE] == 'only' then
    release_task(task, true)
  elseif not TERMINAL[task[STATE]] then
    if may_cancel then
      cancel_for(task, prerequisite)
    end
    return true
  end
  return false
end

-- Carry the failure of a task to its dependents, from the given place on, and cancel at most `limit` of them. Returns how
-- many were cancelled, and the place of the first that was not; nil if there is none.
local function carry_failure(id, place, limit)
  read({ id })
  local task, cancelled, some, left_at = tasks[id], 0, nil, nil
  if not task or not TERMINAL[task[STATE]] or has_succeeded(task) then
    return 0
  end
  repeat
    if task[AWAITED] == true then
      some = redis.call('LRANGE', PREFIX .. 'dependents:' .. id, place, place + TOLD_AT_ONCE - 1)
    else
      some = place == 0 and { task[AWAITED] or nil } or {}
    end
    read(some)
    for _, dependent in ipairs(some) do
      if fail_for(tasks[dependent], task, cancelled < limit) then
        left_at = left_at or cancelled == limit and place or nil
        cancelled = math.min(cancelled + 1, limit)
      end
      place = place + 1
    end
  until #some < TOLD_AT_ONCE
  return cancelled, left_at
end

-- Carry the ends of tasks to those that wait for them. Cancellations beyond the limit are left in a list for reclaim, which
-- gives the entries of that list as `earlier`.
local function carry_on(earlier)
  local left = CASCADE
  for _, entry in ipairs(earlier or {}) do
    local place, id = entry:match('^(%d+):(.*)$')
    failed[#failed + 1] = { id, tonumber(place) }
  end
  while #counting > 0 or #failed > 0 do
    local now_counting, now_counted, now_failed = counting, counted, failed
    counting, counted, failed = {}, {}, {}
    for _, id in ipairs(now_counting) do
      count_down(id, now_counted[id])
    end
    for _, each in ipairs(now_failed) do
      local cancelled, place = carry_failure(each[1], each[2], left)
      left = left - cancelled
      if place then
        redis.call('RPUSH', PREFIX .. 'cascade', string.format('%d:', place) .. each[1])
      end
    end
  end
end
