-- The event log: collects the events of one script and writes them as entries of many events each, by column.
local CHUNK = 200 -- events in one entry of the log, ids in one of the list of endings

local rows, events = 0, 0 -- rows in the columns, and how many events they are
local kinds, moments, ids, names, queues, attempts, workers, enqueued, started, data

-- What all rows of a chunk have in common is written once.
local function column(values)
  local first = values[1]
  for i = 2, rows do
    if values[i] ~= first then
      return values
    end
  end
  return first
end

-- An entry's id is the offset of its last event.
local function write_chunk(chunk, count)
  numbers.offset = last_number('offset') + count
  redis.call('XADD', PREFIX .. 'events', string.format('%d-0', numbers.offset), 'e', cmsgpack.pack(chunk))
end

local function write_events()
  if rows > 0 then
    write_chunk({
      column(kinds), column(moments), ids, column(names), column(queues),
      column(attempts), column(workers), column(enqueued), column(started), column(data),
    }, events)
    rows, events = 0, 0
  end
end

-- One row, which stands for `count` events: 2 if its kind is 'ran', which is 'started' and then 'succeeded', else 1.
local function log(count, kind, at, id, name, queue, attempt, worker, enqueued_at, started_at, more)
  if events + count > CHUNK then
    write_events()
  end
  if rows == 0 then
    kinds, moments, ids, names, queues, attempts, workers, enqueued, started, data = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
  end
  local i = rows + 1
  rows, events = i, events + count
  kinds[i], moments[i], ids[i], names[i], queues[i] = kind, at, id, name, queue
  attempts[i], workers[i], enqueued[i], started[i], data[i] = attempt, worker, enqueued_at, started_at, more
end

-- The tenant that an encoded envelope names in its headers, as JSON; false for none.
local function tenant_in(body)
  if type(body) ~= 'string' or not body:find('"tenant"', 1, true) then
    return false
  end
  local is_read, call = pcall(cjson.decode, body)
  local tenant = is_read and type(call) == 'table' and type(call.headers) == 'table' and call.headers.tenant
  return type(tenant) == 'string' and tenant ~= '' and cjson.encode(tenant)
end

-- The data of an event, as JSON or false, with the tenant named in it.
local function with_tenant(data, tenant)
  if not tenant or data and data:find('"tenant":', 1, true) then
    return data or false
  end
  local more = data and data ~= '{}' and ',' .. data:sub(2) or '}'
  return '{"tenant":' .. tenant .. more
end

-- Write what is left and publish the newest offset. What lies at or below the floor is gone, though its entry may remain.
local function close_log()
  write_events()
  if not numbers.offset then
    return
  end
  local stream = PREFIX .. 'events'
  if numbers.offset - last_number('floor') > RETENTION.events + math.max(10000, RETENTION.events / 100) then
    numbers.floor = numbers.offset - RETENTION.events
    redis.call('XTRIM', stream, 'MINID', string.format('%d-0', numbers.floor + 1))
  end
  redis.call('PUBLISH', stream, numbers.offset)
end
