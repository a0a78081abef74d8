-- needs: call tasks entry log endings awaited write_batch prerequisites pushing
-- Staging.promote: make the pushes of these parts tasks, all in this one call. Known ids are left alone; a job that was
-- promoted before gets the same reply again.
-- INPUT {job, {{part, rows}, …}, most rows, ids of the pushes that come last, checks, awaiting}. ARGV[3] these pushes.
-- A chunk is a packed list. Up to CHUNK uniform pushes without options are
--   {true, name, queue, priority, between, behind, the packed fields between ID and BODY, the packed ids, arguments,
--   the event data of each push as JSON or false}
--   where a body is `{"id":"`, its id, `between`, its arguments, `behind`.
-- All other pushes are {false, the ids, a packed list of pushes as shared/pushing.lua reads them}.
-- Reply, packed: {created, known}; or the name of an incomplete part and how many of its pushes are there; or only the number
--   of pushes, if one call may not promote so many; or as that of push.lua, what is missing.
local name, parts, most, last_ids, checks
name, parts, most, last_ids, checks, awaiting = unpack(INPUT)
local job = PREFIX .. 'stage:' .. name
local promoted = PREFIX .. 'promoted:' .. name
local before = redis.call('GET', promoted)

local total = 0
if not before then
  for _, part in ipairs(parts) do
    local rows = tonumber(redis.call('HGET', job, part[1]) or 0)
    if rows ~= part[2] or (rows > 0 and redis.call('EXISTS', job .. ':' .. part[1]) == 0) then
      return cmsgpack.pack({ part[1], rows })
    end
    total = total + rows
  end
  if total > most then
    return cmsgpack.pack({ total })
  end
end

local AT_ONCE = 10 -- chunks that are fetched together: one by one, each would be searched for from the first
local function each_chunk(take)
  for _, part in ipairs(parts) do
    local chunks = job .. ':' .. part[1]
    for i = 0, redis.call('LLEN', chunks) - 1, AT_ONCE do
      for _, chunk in ipairs(redis.call('LRANGE', chunks, i, i + AT_ONCE - 1)) do
        take(unpack(cmsgpack.unpack(chunk)))
      end
    end
  end
end

local staged = {} -- the ids of all chunks, if the last pushes may name them
if not before and #checks > 0 then
  each_chunk(function(is_uniform, ids, _, _, _, _, _, packed_ids)
    for _, id in ipairs(is_uniform and cmsgpack.unpack(packed_ids) or ids) do
      staged[id] = true
    end
  end)
  local refusal = missing(checks, staged)
  if refusal then
    return cmsgpack.pack(refusal)
  end
end

local FRONT = '{"id":"'
local created, announced, is_mixed = 0, {}, false
local front, back = new_front(false, false, false), new_back(NOW)
local told_front, told_back = cmsgpack.pack('enqueued', NOW), cmsgpack.pack(0, false, NOW, false)

-- What a packed text of this length begins with.
local heads = {}
local function head_of(length)
  local head = heads[length]
  if not head then
    head = cmsgpack.pack(string.rep(' ', length)):sub(1, -length - 1)
    heads[length] = head
  end
  return head
end

-- All new: each is written by the commands that write many, and the packed ids go into the log as they are.
local function write_uniform(task, queue, priority, between, behind, fields, packed_ids, args, data)
  local pack, writes, ids = cmsgpack.pack, {}, cmsgpack.unpack(packed_ids)
  local seq, key, count = last_number('seq'), PREFIX .. 't:', #ids
  local rest, fixed = behind .. back, #FRONT + #between + #behind
  for i = 1, count do
    local id, given = ids[i], args[i]
    local body_head = head_of(fixed + #id + #given)
    seq = seq + 1
    writes[2 * i - 1] = key .. id
    local task_rest = pack(seq) .. head_of(#id) .. id .. fields .. body_head .. FRONT .. id .. between .. given .. rest
    writes[2 * i] = awaiting[id] and awaited_task(id, front, task_rest) or front .. task_rest
  end
  if redis.call('MSETNX', unpack(writes)) == 0 then
    for _, id in ipairs(ids) do
      fresh[id] = nil
    end
    return false
  end
  for i = 1, count do
    if awaiting[ids[i]] then
      tasks[ids[i]] = writes[2 * i]
    end
  end
  local first, rank = last_number('seq'), (9 - priority) * RANK
  local index, ready, text = {}, {}, string.format
  for i = 1, count do
    local id = ids[i]
    first = first + 1
    -- As texts: of a number, call() would make one with all the digits that a fraction could have.
    index[2 * i - 1], index[2 * i] = text('%d', first), id
    ready[2 * i - 1], ready[2 * i] = text('%d', rank + first), id
  end
  redis.call('ZADD', PREFIX .. 'index', unpack(index))
  redis.call('ZADD', PREFIX .. 'ready:' .. queue, unpack(ready))
  numbers.seq = seq
  numbers.offset = last_number('offset') + count
  redis.call(
    'XADD', PREFIX .. 'events', string.format('%d-0', numbers.offset), 'e',
    '\154' .. told_front .. packed_ids .. pack(task, queue) .. told_back .. pack(data or false)
  )
  created = created + count
  announced[queue] = true
  return true
end

-- Some may be known: as push.lua does it.
local function write_any(ids, packed)
  local offset, receipt = first_item(packed), nil
  is_mixed = true
  read(ids)
  for _ = 1, #ids do
    receipt, offset = push(packed, offset)
    created = created + (receipt == true and 1 or 0)
  end
end

local function write_one_by_one(between, behind, fields, packed_ids, args)
  local ids, pushes = cmsgpack.unpack(packed_ids), {}
  for i, id in ipairs(ids) do
    -- a list of eight, the first of which says: no options
    local body = FRONT .. id .. between .. args[i] .. behind
    pushes[i] = '\152\194' .. head_of(#id) .. id .. fields .. head_of(#body) .. body
  end
  write_any(ids, struct.pack('>BH', 0xdc, #pushes) .. table.concat(pushes))
end

local function take(is_uniform, a, b, c, between, behind, fields, ids, args, data)
  if not is_uniform then
    write_any(a, b)
  elseif is_mixed or not write_uniform(a, b, c, between, behind, fields, ids, args, data) then
    write_one_by_one(between, behind, fields, ids, args)
  end
end

if not before then
  each_chunk(take)
  for queue in pairs(announced) do
    announce(queue)
  end
  local offset, _ = first_item(ARGV[3]), nil
  read(last_ids)
  for _ = 1, #last_ids do
    _, offset = push(ARGV[3], offset)
  end
  carry_on()
  commit()
  before = cmsgpack.pack({ created, total - created })
  redis.call('SET', promoted, before, 'PX', math.max(1, RETENTION.results))
end
for _, part in ipairs(redis.call('HKEYS', job)) do
  redis.call('UNLINK', job .. ':' .. part)
end
redis.call('UNLINK', job)
return before
