-- needs: call tasks entry log endings space
-- Staging.promote: the pushes of these parts become tasks, all in this one call; known ids are left alone; a job that was
-- promoted before answers as it did then.
-- INPUT {job, {{part, rows}, …}, most rows}
-- A chunk is a packed list. Of pushes that are alike and have no options, at most CHUNK of them:
--   {true, name, queue, priority, the packed fields between ID and BODY, the ids packed, {id, packed body, id, …}}
-- Of any others: {false, the ids, a packed list of pushes as push.lua takes them}
-- Reply, packed: {created, known}; or the part that is not whole and what there is of it; or only how many there are, if
--   these are more than one call may promote.
local name, parts, most = unpack(INPUT)
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

local created, announced = 0, {}
local front, back = new_front(false, false, false), new_back(NOW)
local told_front, told_back = cmsgpack.pack('enqueued', NOW), cmsgpack.pack(0, false, NOW, false, false)

-- What a packed id of this length begins with.
local id_heads = {}
local function head_of(id)
  local head = id_heads[#id]
  if not head then
    head = cmsgpack.pack(id):sub(1, -#id - 1)
    id_heads[#id] = head
  end
  return head
end

-- All new: each is written by the commands that write many, and the ids are never unpacked for the log.
local function write_alike(task, queue, priority, between, packed_ids, rows)
  local pack, writes, count = cmsgpack.pack, {}, #rows / 2
  local seq, key = last_number('seq'), PREFIX .. 't:'
  for i = 1, 2 * count, 2 do
    local id = rows[i]
    seq = seq + 1
    writes[i], writes[i + 1] = key .. id, front .. pack(seq) .. head_of(id) .. id .. between .. rows[i + 1] .. back
  end
  if redis.call('MSETNX', unpack(writes)) == 0 then
    return false
  end
  local first, rank = last_number('seq'), (9 - priority) * RANK
  local index, ready, text = {}, {}, string.format
  for i = 1, 2 * count, 2 do
    first = first + 1
    -- As texts: of a number, call() would make one with all the digits that a fraction could have.
    index[i], index[i + 1] = text('%d', first), rows[i]
    ready[i], ready[i + 1] = text('%d', rank + first), rows[i]
  end
  redis.call('ZADD', PREFIX .. 'index', unpack(index))
  redis.call('ZADD', PREFIX .. 'ready:' .. queue, unpack(ready))
  numbers.seq = seq
  numbers.offset = last_number('offset') + count
  redis.call(
    'XADD', PREFIX .. 'events', string.format('%d-0', numbers.offset), 'e',
    '\154' .. told_front .. packed_ids .. pack(task, queue) .. told_back
  )
  created = created + count
  announced[queue] = true
  return true
end

-- Some may be known: as push.lua does it.
local function write_any(ids, packed)
  local offset, receipt = first_item(packed), nil
  read(ids)
  for _ = 1, #ids do
    receipt, offset = push(packed, offset)
    created = created + (receipt == true and 1 or 0)
  end
end

local function write_one_by_one(between, rows)
  local ids, pushes = {}, {}
  for i = 1, #rows, 2 do
    local id = rows[i]
    ids[#ids + 1] = id
    -- a list of eight, the first of which says: no options
    pushes[#pushes + 1] = '\152\194' .. head_of(id) .. id .. between .. rows[i + 1]
  end
  write_any(ids, struct.pack('>BH', 0xdc, #pushes) .. table.concat(pushes))
end

local function take(chunk)
  local is_alike, a, b, c, between, ids, rows = unpack(cmsgpack.unpack(chunk))
  if not is_alike then
    write_any(a, b)
  elseif next(tasks) or not write_alike(a, b, c, between, ids, rows) then
    write_one_by_one(between, rows)
  end
end

if not before then
  for _, part in ipairs(parts) do
    local chunks = job .. ':' .. part[1]
    for i = 0, redis.call('LLEN', chunks) - 1 do
      take(redis.call('LINDEX', chunks, i))
    end
  end
  for queue in pairs(announced) do
    announce(queue)
  end
  commit()
  before = cmsgpack.pack({ created, total - created })
  redis.call('SET', promoted, before, 'PX', math.max(1, RETENTION.results))
end
for _, part in ipairs(redis.call('HKEYS', job)) do
  redis.call('UNLINK', job .. ':' .. part)
end
redis.call('UNLINK', job)
return before
