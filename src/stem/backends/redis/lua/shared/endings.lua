-- Write tasks, end them, and delete those past their retention.
local writes, written = {}, 0 -- key, packed task, …
local bodies_gone = {}
local uniques, uniques_set = {}, {} -- key → holder's id; key → milliseconds, 0 to release, -1 to hold until released
local leases_gone, leases_dropped = {}, 0
local ended, endings = {}, 0 -- ids
local ended_now, ends = {}, 0 -- those of them that are to be swept in the order of time
local running = {} -- queue → by how much its count changes

local function write(key, packed)
  writes[written + 1], writes[written + 2] = key, packed
  written = written + 2
end

local function drop_lease(id)
  leases_dropped = leases_dropped + 1
  leases_gone[leases_dropped] = id
end

local function unleased(id, queue)
  drop_lease(id)
  running[queue] = (running[queue] or 0) - 1
end

local function drop_body(id)
  bodies_gone[#bodies_gone + 1] = PREFIX .. 'b:' .. id
end

local function drop_links(id)
  redis.call('UNLINK', PREFIX .. 'b:' .. id, PREFIX .. 'pending:' .. id, PREFIX .. 'dependents:' .. id, PREFIX .. 'steps:' .. id)
end

local function holder(key)
  if uniques[key] == nil then
    uniques[key] = redis.call('GET', PREFIX .. 'u:' .. key)
  end
  return uniques[key]
end

-- The holder's end frees its key, and never another's. A key held for some time falls free early only if the holder was
-- cancelled, because its work was not done.
local function release(key, id, is_cancelled)
  if holder(key) == id and (is_cancelled or (uniques_set[key] or redis.call('PTTL', PREFIX .. 'u:' .. key)) == -1) then
    uniques[key], uniques_set[key] = false, 0
  end
end

-- Publish this ending; `is_swept`: the record is deleted after its retention, in the order of endings.
local function end_of(id, is_swept)
  endings = endings + 1
  ended[endings] = id
  if is_swept then
    ends = ends + 1
    ended_now[ends] = id
  end
end

-- Note who ended now: when, in 16 digits, then the packed ids.
local function write_ended(ids)
  for first = 1, #ids, CHUNK do
    local some = { unpack(ids, first, math.min(first + CHUNK - 1, #ids)) }
    redis.call('RPUSH', PREFIX .. 'ended', string.format('%016d', NOW) .. cmsgpack.pack(some))
  end
end

local function write_counts(name, changes)
  for queue, change in pairs(changes) do
    if change ~= 0 and redis.call('HINCRBY', PREFIX .. name, queue, change) == 0 then
      redis.call('HDEL', PREFIX .. name, queue)
    end
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

local function write_endings()
  spread(writes, 'MSET')
  spread(bodies_gone, 'DEL')
  write_uniques()
  spread(leases_gone, 'ZREM', PREFIX .. 'leases')
  write_counts('running', running)
  write_ended(ended_now)
  if endings > 0 then
    redis.call('PUBLISH', PREFIX .. 'ended', cmsgpack.pack(ended))
  end
end

-- Whether a task that waited for this one may still read its record: false, or the moment of an end that has not been
-- outlived, when to look again. `answers` are remembered, for many wait for the same join.
local function is_needed(task, horizon, answers)
  local others = { task[AWAITED] or nil }
  if task[AWAITED] == true then
    others = redis.call('LRANGE', PREFIX .. 'dependents:' .. task[ID], 0, -1)
  end
  for _, id in ipairs(others) do
    if answers[id] == nil then
      local packed = redis.call('GET', PREFIX .. 't:' .. id)
      local other = packed and readable(packed)
      if other and (not TERMINAL[other[STATE]] or other[LETTER] or other[PENDING]) then
        answers[id] = horizon + RETENTION.results * 500
      else
        answers[id] = other and other[ENDS] and math.max(other[FINISHED] or 0, horizon + RETENTION.results * 100) or false
      end
    end
    if answers[id] then
      return answers[id]
    end
  end
  return false
end

-- Drop those of the records that ended before the horizon. Ids pushed anew or replayed since are none of them; those that
-- others need are looked at again later.
local function drop_records(ids, horizon)
  local gone, keys, answers = {}, {}, {}
  for i, packed in ipairs(fetch('t:', ids)) do
    local task = packed and readable(packed)
    if not task or TERMINAL[task[STATE]] and not task[LETTER] and (task[FINISHED] or 0) <= horizon then
      local needed = task and task[AWAITED] and is_needed(task, horizon, answers)
      if needed then
        redis.call('ZADD', PREFIX .. 'late', string.format('%d', needed), ids[i])
      else
        gone[#gone + 1] = ids[i]
        keys[#keys + 1] = PREFIX .. 't:' .. ids[i]
        if task and packed:byte(WIDTH_AT) == LINKED_WIDTH then
          drop_links(ids[i])
        end
      end
    end
  end
  spread(keys, 'DEL')
  spread(gone, 'ZREM', PREFIX .. 'index')
  return #gone
end

-- Drop outlived records, and look at no more than `limit`: first at what ended here, in the order of time and whole batches
-- of it, then at what is to go out of turn.
local function forget(horizon, limit)
  local list, late, dropped, looked = PREFIX .. 'ended', PREFIX .. 'late', 0, 0
  while looked < limit do
    local entry = redis.call('LINDEX', list, 0)
    if not entry or tonumber(entry:sub(1, 16)) > horizon then
      break
    end
    local ids = cmsgpack.unpack(entry:sub(17))
    dropped, looked = dropped + drop_records(ids, horizon), looked + #ids
    redis.call('LPOP', list)
  end
  if looked < limit then
    local ids = redis.call('ZRANGEBYSCORE', late, '-inf', horizon, 'LIMIT', 0, limit - looked)
    spread(ids, 'ZREM', late)
    dropped = dropped + drop_records(ids, horizon)
  end
  return dropped
end

-- Endings pay for the sweeping, so that the past stays bounded though nobody calls prune.
local function sweep(count)
  forget(NOW - RETENTION.results * 1000, count)
end
