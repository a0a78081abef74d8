-- Tasks are read once, changed in Lua, and written by commit() with few commands for the whole batch.
local RANK = 562949953421312 -- 2^49: a priority's share of a ready score; sequence numbers stay below it
local SMALL = 1024 -- a body up to this long lies in its task; a longer one beside it, so that changes need not copy it
local CHUNK = 200 -- events in one entry of the log, ids in one of the list of endings

local tasks = {} -- id → task, false where the store has none
local changed, changes = {}, 0 -- with their number, for asking a long table its length is a search
local events, told = {}, 0
local bodies, bodies_gone = {}, {}
local uniques, uniques_set = {}, {} -- key → holder's id; key → milliseconds, 0 to release, -1 to hold until released
local indexed = {}
local ready, delayed = {}, {} -- queue → score, member, …
local leases, leases_gone = {}, {}
local buried, unburied = {}, {}
local running, dead = {}, {} -- queue → by how much its count changes

local function append(lists, name, a, b)
  local list = lists[name]
  if not list then
    list = { n = 0 }
    lists[name] = list
  end
  local length = list.n
  list[length + 1], list[length + 2], list.n = a, b, length + 2
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
      tasks[wanted[i]] = thaw(packed)
    end
  end
end

-- Their bodies, in order.
local function bodies_of(list)
  local found, ids, places = {}, {}, {}
  for i, task in ipairs(list) do
    found[i] = task[BODY]
    if not task[BODY] then
      ids[#ids + 1] = task[ID]
      places[#ids] = i
    end
  end
  for i, body in ipairs(fetch('b:', ids)) do
    found[places[i]] = body or ''
  end
  return found
end

-- The task, if the lease on it is still good.
local function held(id, fence)
  local task = tasks[id]
  return task and task[HELD] and task[FENCE] == fence and task
end

local function touch(task)
  if task[FORMAT] == UNCHANGED then
    task[FORMAT] = CHANGED
    changes = changes + 1
    changed[changes] = task
  end
end

local function tell(kind, task, at, data)
  told = told + 1
  events[told] = {
    kind, at, task[ID], task[NAME], task[QUEUE], task[ATTEMPT], task[WORKER], task[ENQUEUED], task[STARTED], data or false,
  }
end

-- A delayed member sorts by age where due times are equal, and a ready score can be made of it.
local function enter(task, due)
  task[DUE] = due
  if due <= NOW then
    append(ready, task[QUEUE], (9 - task[PRIORITY]) * RANK + task[SEQ], task[ID])
  else
    append(delayed, task[QUEUE], due, string.format('%015d%d', task[SEQ], task[PRIORITY]) .. task[ID])
  end
end

local function delayed_id(member)
  return member:sub(17)
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
        scores[#scores + 1] = delayed_id(member)
      end
      spread(scores, 'ZADD', PREFIX .. 'ready:' .. queue)
      redis.call('ZREMRANGEBYRANK', from, 0, #members - 1)
    end
  end
end

local function lease(task, fence, length)
  touch(task)
  task[FENCE], task[HELD] = fence, true
  leases[#leases + 1] = NOW + length
  leases[#leases + 1] = task[ID]
  running[task[QUEUE]] = (running[task[QUEUE]] or 0) + 1
end

local function unlease(task)
  if task[HELD] then
    task[HELD] = false
    leases_gone[#leases_gone + 1] = task[ID]
    running[task[QUEUE]] = (running[task[QUEUE]] or 0) - 1
  end
end

local function start(task, worker, at)
  touch(task)
  task[STATE], task[WORKER], task[STARTED], task[UPDATED] = 'running', worker, at, at
  tell('started', task, at)
end

local function note(task, key, value)
  task[META] = task[META] or {}
  task[META][key] = value
end

local function wait_again(task, due)
  touch(task)
  unlease(task)
  task[WORKER], task[STARTED] = false, false
  task[STATE], task[UPDATED] = task[ATTEMPT] == 0 and 'queued' or 'retried', NOW
  enter(task, due)
end

-- Nothing will run this task again: keep its record only.
local function retire(task)
  if not task[BODY] then
    bodies_gone[#bodies_gone + 1] = PREFIX .. 'b:' .. task[ID]
  end
  task[DUE], task[EXPIRES], task[VISIBLE], task[DEATHS], task[LETTER], task[BODY] = false, false, false, 0, false, false
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
  task[STATE], task[ERROR], task[FINISHED], task[UPDATED] = state, failure, NOW, NOW
  if state ~= 'failed' then
    retire(task)
  end
  local key = task[UNIQUE]
  if key then
    if holder(key) == task[ID] then
      uniques[key], uniques_set[key] = false, 0
    end
    task[UNIQUE] = false
  end
end

local function bury(task, reason, failure, meta, data)
  finish(task, 'failed', failure)
  local seq = number('dead')
  task[LETTER] = { seq, reason, meta }
  buried[#buried + 1] = seq
  buried[#buried + 1] = task[ID]
  dead[task[QUEUE]] = (dead[task[QUEUE]] or 0) + 1
  tell('failed', task, NOW, data)
  tell('dead-lettered', task, NOW, data)
end

local function unbury(task)
  touch(task)
  task[LETTER] = false
  unburied[#unburied + 1] = task[ID]
  dead[task[QUEUE]] = (dead[task[QUEUE]] or 0) - 1
end

-- Take in the push that is packed at this offset; its id must have been read. Returns what became of it (true, false for a
-- known id, or the id that holds its key), and where the next one begins.
local function push(packed, offset)
  local behind, id, name, queue, priority, body, meta, visible, delay, due, lifetime, expires, key, hold =
    cmsgpack.unpack_limit(packed, 13, offset + 1)
  if tasks[id] then
    return false, behind
  end
  if key then
    local first = holder(key)
    if first then
      return first, behind
    end
    if not hold or hold > 0 then
      uniques[key], uniques_set[key] = id, hold and math.ceil(hold / 1000) or -1
    end
  end
  local task = {
    UNCHANGED, id, name, queue, priority, number('seq'), 'queued', 0, 0, NOW, NOW,
    false, false, meta, false, false, false, false,
    visible, false, lifetime and NOW + lifetime or expires, 0, false, not hold and key, false, false,
  }
  if #body <= SMALL then
    task[BODY] = body
  else
    bodies[#bodies + 1] = PREFIX .. 'b:' .. id
    bodies[#bodies + 1] = body
  end
  tasks[id] = task
  indexed[#indexed + 1] = task[SEQ]
  indexed[#indexed + 1] = id
  touch(task)
  tell('enqueued', task, NOW)
  enter(task, delay and NOW + delay or due or NOW)
  return true, behind
end

-- Drop those of the records that ended before the horizon. Ids pushed anew or replayed since are none of them.
local function drop_records(ids, horizon)
  local gone, keys = {}, {}
  for i, packed in ipairs(fetch('t:', ids)) do
    local task = packed and thaw(packed)
    if not task or TERMINAL[task[STATE]] and not task[LETTER] and (task[FINISHED] or 0) <= horizon then
      gone[#gone + 1] = ids[i]
      keys[#keys + 1] = PREFIX .. 't:' .. ids[i]
    end
  end
  spread(keys, 'DEL')
  spread(gone, 'ZREM', PREFIX .. 'index')
  return #gone
end

-- Drop outlived records until `limit` is reached: first what ended here, in the order of time and whole batches of it, then
-- what is to go out of turn.
local function forget(horizon, limit)
  local list, late, dropped = PREFIX .. 'ended', PREFIX .. 'late', 0
  while dropped < limit do
    local entry = redis.call('LINDEX', list, 0)
    if not entry or tonumber(entry:sub(1, 16)) > horizon then
      break
    end
    dropped = dropped + drop_records(cmsgpack.unpack(entry:sub(17)), horizon)
    redis.call('LPOP', list)
  end
  if dropped < limit then
    local ids = redis.call('ZRANGEBYSCORE', late, '-inf', horizon, 'LIMIT', 0, limit - dropped)
    dropped = dropped + drop_records(ids, horizon)
    spread(ids, 'ZREM', late)
  end
  return dropped
end

-- Endings pay for the sweeping, so that the past stays bounded though nobody calls prune.
local function sweep(count)
  forget(NOW - RETENTION.results * 1000, count)
end

-- Note who ended now: when, in 16 digits, then the packed ids.
local function write_ended(ids)
  for first = 1, #ids, CHUNK do
    local some = { unpack(ids, first, math.min(first + CHUNK - 1, #ids)) }
    redis.call('RPUSH', PREFIX .. 'ended', string.format('%016d', NOW) .. cmsgpack.pack(some))
  end
end

local function write_tasks()
  local values, ended, now, late = {}, {}, {}, {}
  local prefix, pack = PREFIX .. 't:', cmsgpack.pack
  for i = 1, changes do
    local task = changed[i]
    local id = task[ID]
    values[2 * i - 1], values[2 * i] = prefix .. id, pack(task)
    if TERMINAL[task[STATE]] then
      ended[#ended + 1] = id
      if task[FINISHED] ~= NOW then
        late[#late + 1] = task[FINISHED] or 0
        late[#late + 1] = id
      elseif not task[LETTER] then
        now[#now + 1] = id
      end
    end
  end
  spread(values, 'MSET')
  spread(late, 'ZADD', PREFIX .. 'late')
  write_ended(now)
  if #ended > 0 then
    redis.call('PUBLISH', PREFIX .. 'ended', cmsgpack.pack(ended))
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
