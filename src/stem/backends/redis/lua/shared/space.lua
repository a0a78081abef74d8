-- Tasks are read once, changed in Lua, and written by commit() with few commands for the whole batch.
-- A task is the table that docs/redis-keys.md describes, plus its `id` while it is in hand.
local TERMINAL = { succeeded = true, failed = true, cancelled = true }
local RANK = 562949953421312 -- 2^49: a priority's share of a ready score; sequence numbers stay below it
local CHUNK = 200 -- events in one entry of the log
local GRACE = 60000000 -- how long an outlived record may lie before other traffic sweeps it away

local tasks = {} -- id → task, false where the store has none
local changed, is_changed = {}, {}
local events = {}
local bodies, bodies_gone = {}, {}
local uniques, uniques_set = {}, {}
local indexed = {}
local ready, delayed = {}, {} -- queue → score, member, …
local leases, leases_gone = {}, {}
local buried, unburied = {}, {}
local running, dead = {}, {} -- queue → by how much its count changes

local function append(lists, name, a, b)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  list[#list + 1] = a
  list[#list + 1] = b
end

local function read(ids)
  local wanted = {}
  for _, id in ipairs(ids) do
    if tasks[id] == nil then
      tasks[id] = false
      wanted[#wanted + 1] = id
    end
  end
  for i, packed in ipairs(fetch('t:', wanted)) do
    if packed then
      local task = cmsgpack.unpack(packed)
      task.id = wanted[i]
      tasks[wanted[i]] = task
    end
  end
end

-- The task, if the lease on it is still good.
local function held(id, fence)
  local task = tasks[id]
  return task and task.held and task.fence == fence and task
end

local function touch(task)
  if not is_changed[task.id] then
    is_changed[task.id] = true
    changed[#changed + 1] = task
  end
end

local function tell(kind, task, at, data)
  events[#events + 1] = {
    kind, at, task.id, task.name, task.queue, task.attempt or 0, task.worker or false,
    task.enqueued, task.started or false, data or false,
  }
end

-- A member that sorts by age where scores are equal, and from which a ready score can be made again.
local function place(task)
  return string.format('%015d%d', task.seq, task.prio) .. task.id
end

local function enter(task, due)
  task.due = due
  if due <= NOW then
    append(ready, task.queue, (9 - task.prio) * RANK + task.seq, task.id)
  else
    append(delayed, task.queue, due, place(task))
  end
end

-- Due tasks become ready, at most `limit` a queue, so that a million of them cannot stall the server.
local function promote(queues, limit)
  for _, queue in ipairs(queues) do
    local from = PREFIX .. 'delayed:' .. queue
    local members = redis.call('ZRANGEBYSCORE', from, '-inf', NOW, 'LIMIT', 0, limit)
    if #members > 0 then
      local scores = {}
      for _, member in ipairs(members) do
        scores[#scores + 1] = (9 - tonumber(member:sub(16, 16))) * RANK + tonumber(member:sub(1, 15))
        scores[#scores + 1] = member:sub(17)
      end
      spread(scores, 'ZADD', PREFIX .. 'ready:' .. queue)
      redis.call('ZREMRANGEBYRANK', from, 0, #members - 1)
    end
  end
end

local function lease(task, fence, seconds)
  touch(task)
  task.fence, task.held = fence, true
  leases[#leases + 1] = NOW + seconds
  leases[#leases + 1] = place(task)
  running[task.queue] = (running[task.queue] or 0) + 1
end

local function unlease(task)
  if task.held then
    task.held = nil
    leases_gone[#leases_gone + 1] = place(task)
    running[task.queue] = (running[task.queue] or 0) - 1
  end
end

local function start(task, worker, at)
  touch(task)
  task.state, task.worker, task.started, task.updated = 'running', worker, at, at
  tell('started', task, at)
end

local function wait_again(task, due)
  touch(task)
  unlease(task)
  task.worker, task.started = nil, nil
  task.state, task.updated = (task.attempt or 0) == 0 and 'queued' or 'retried', NOW
  enter(task, due)
end

-- Nothing will run this task again: keep its record only.
local function retire(task)
  bodies_gone[#bodies_gone + 1] = PREFIX .. 'b:' .. task.id
  task.due, task.expires, task.visible, task.deaths, task.letter = nil, nil, nil, nil, nil
end

local function holder(key)
  if uniques[key] == nil then
    uniques[key] = redis.call('GET', PREFIX .. 'u:' .. key)
  end
  return uniques[key]
end

local function finish(task, state, failure)
  touch(task)
  unlease(task)
  task.state, task.error, task.finished, task.updated = state, failure, NOW, NOW
  if state ~= 'failed' then
    retire(task)
  end
  if task.unique then
    if holder(task.unique) == task.id then
      uniques[task.unique] = false
      uniques_set[task.unique] = 0
    end
    task.unique = nil
  end
end

local function bury(task, reason, failure, meta, data)
  finish(task, 'failed', failure)
  task.letter = { seq = number('dead'), reason = reason, meta = meta }
  buried[#buried + 1] = task.letter.seq
  buried[#buried + 1] = task.id
  dead[task.queue] = (dead[task.queue] or 0) + 1
  tell('failed', task, NOW, data)
  tell('dead-lettered', task, NOW, data)
end

local function unbury(task)
  touch(task)
  task.letter = nil
  unburied[#unburied + 1] = task.id
  dead[task.queue] = (dead[task.queue] or 0) - 1
end

-- Take in one push; its id must have been read. Returns true, false for a known id, or the id that holds its key.
local function push(pushed)
  if tasks[pushed.id] then
    return false
  end
  local task, key = pushed, pushed.unique
  if key then
    local first = holder(key)
    if first then
      return first
    end
    if not pushed.hold or pushed.hold > 0 then
      uniques[key] = task.id
      uniques_set[key] = pushed.hold and math.ceil(pushed.hold / 1000) or -1
    end
    if pushed.hold then
      task.unique, task.hold = nil, nil
    end
  end
  bodies[#bodies + 1] = PREFIX .. 'b:' .. task.id
  bodies[#bodies + 1] = task.body
  local due = task.delay and NOW + task.delay or task.due or NOW
  if task.lifetime then
    task.expires = NOW + task.lifetime
  end
  task.body, task.delay, task.lifetime = nil, nil, nil
  task.seq, task.state, task.enqueued, task.updated = number('seq'), 'queued', NOW, NOW
  indexed[#indexed + 1] = task.seq
  indexed[#indexed + 1] = task.id
  tasks[task.id] = task
  touch(task)
  tell('enqueued', task, NOW)
  enter(task, due)
  return true
end

-- Drop records that ended before the horizon. An entry may be stale: its id pushed anew, or replayed, since.
local function forget(horizon, limit)
  local ids = redis.call('ZRANGEBYSCORE', PREFIX .. 'ended', '-inf', horizon, 'LIMIT', 0, limit)
  if #ids == 0 then
    return 0
  end
  local gone, keys = {}, {}
  for i, packed in ipairs(fetch('t:', ids)) do
    local task = packed and cmsgpack.unpack(packed)
    if not task or TERMINAL[task.state] and not task.letter and (task.finished or 0) <= horizon then
      gone[#gone + 1] = ids[i]
      keys[#keys + 1] = PREFIX .. 't:' .. ids[i]
    end
  end
  spread(keys, 'DEL')
  spread(gone, 'ZREM', PREFIX .. 'index')
  spread(ids, 'ZREM', PREFIX .. 'ended')
  return #gone
end

-- Endings pay for the sweeping, so that the past stays bounded though nobody calls prune.
local function sweep(count)
  forget(NOW - RETENTION.results * 1000 - GRACE, count)
end

local function write_tasks()
  local lasting, ended, ids = {}, {}, {}
  for _, task in ipairs(changed) do
    local id = task.id
    task.id = nil
    local key, packed = PREFIX .. 't:' .. id, cmsgpack.pack(task)
    task.id = id
    if TERMINAL[task.state] then
      ids[#ids + 1] = id
    end
    if TERMINAL[task.state] and not task.letter then
      redis.call('SET', key, packed, 'PX', RETENTION.results)
      ended[#ended + 1] = task.finished or 0
      ended[#ended + 1] = id
    else
      lasting[#lasting + 1] = key
      lasting[#lasting + 1] = packed
    end
  end
  spread(lasting, 'MSET')
  spread(ended, 'ZADD', PREFIX .. 'ended')
  if #ids > 0 then
    redis.call('PUBLISH', PREFIX .. 'ended', cmsgpack.pack(ids))
  end
end

local function write_uniques()
  for key, milliseconds in pairs(uniques_set) do
    local name = PREFIX .. 'u:' .. key
    if milliseconds == 0 then
      redis.call('DEL', name)
    elseif milliseconds < 0 then
      redis.call('SET', name, uniques[key])
    else
      redis.call('SET', name, uniques[key], 'PX', milliseconds)
    end
  end
end

-- An entry's id is the offset of its last event. What lies at or below the floor is gone, though its entry may remain.
local function write_events()
  if #events == 0 then
    return
  end
  local log, offset = PREFIX .. 'events', last_number('offset')
  for first = 1, #events, CHUNK do
    local last = math.min(first + CHUNK - 1, #events)
    local chunk = #events <= CHUNK and events or { unpack(events, first, last) }
    redis.call('XADD', log, string.format('%d-0', offset + last), 'e', cmsgpack.pack(chunk))
  end
  numbers.offset = offset + #events
  if numbers.offset - last_number('floor') > RETENTION.events + math.max(10000, RETENTION.events / 100) then
    numbers.floor = numbers.offset - RETENTION.events
    redis.call('XTRIM', log, 'MINID', string.format('%d-0', numbers.floor + 1))
  end
  redis.call('PUBLISH', log, numbers.offset)
end

local function write_counts(name, changes)
  for queue, change in pairs(changes) do
    if change ~= 0 and redis.call('HINCRBY', PREFIX .. name, queue, change) == 0 then
      redis.call('HDEL', PREFIX .. name, queue)
    end
  end
end

local function commit()
  local entered = {}
  write_tasks()
  write_uniques()
  spread(bodies, 'MSET')
  spread(bodies_gone, 'DEL')
  spread(indexed, 'ZADD', PREFIX .. 'index')
  spread(leases_gone, 'ZREM', PREFIX .. 'leases')
  spread(leases, 'ZADD', PREFIX .. 'leases')
  spread(unburied, 'ZREM', PREFIX .. 'dead')
  spread(buried, 'ZADD', PREFIX .. 'dead')
  write_counts('running', running)
  write_counts('buried', dead)
  for queue, scores in pairs(ready) do
    spread(scores, 'ZADD', PREFIX .. 'ready:' .. queue)
    entered[queue] = true
  end
  for queue, scores in pairs(delayed) do
    spread(scores, 'ZADD', PREFIX .. 'delayed:' .. queue)
    entered[queue] = true
  end
  for queue in pairs(entered) do
    redis.call('SADD', PREFIX .. 'queues', queue)
    redis.call('PUBLISH', PREFIX .. 'wake:' .. queue, '')
  end
  write_events()
  flush_numbers()
end
