-- The event log: what one script tells, in entries of many events each, by column.
local CHUNK = 200 -- events in one entry of the log, ids in one of the list of endings

local told, events = 0, 0 -- how many rows stand in the columns, and how many events these are
local kinds, moments, ids, names, queues, attempts, workers, enqueued, started, data

-- What all rows of a chunk have in common is written once.
local function column(values)
  local first = values[1]
  for i = 2, told do
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
  if told > 0 then
    write_chunk({
      column(kinds), column(moments), ids, column(names), column(queues),
      column(attempts), column(workers), column(enqueued), column(started), column(data),
    }, events)
    told, events = 0, 0
  end
end

-- One row, which stands for `count` events: 2 if its kind is 'ran', which is 'started' and then 'succeeded', else 1.
local function log(count, kind, at, id, name, queue, attempt, worker, enqueued_at, started_at, more)
  if events + count > CHUNK then
    write_events()
  end
  if told == 0 then
    kinds, moments, ids, names, queues, attempts, workers, enqueued, started, data = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
  end
  local i = told + 1
  told, events = i, events + count
  kinds[i], moments[i], ids[i], names[i], queues[i] = kind, at, id, name, queue
  attempts[i], workers[i], enqueued[i], started[i], data[i] = attempt, worker, enqueued_at, started_at, more
end

-- Write what is left and say so. What lies at or below the floor is gone, though its entry may remain.
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
