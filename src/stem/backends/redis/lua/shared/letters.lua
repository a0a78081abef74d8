-- Dead letters that match a filter, newest first, found by one bounded stretch of their index.
-- INPUT {ids?, before?, limit, stretch, queue?, name?, reason?, since?, till?}

local function matches(task)
  return task
    and task.letter
    and (not INPUT.before or task.letter.seq < INPUT.before)
    and (not INPUT.queue or task.queue == INPUT.queue)
    and (not INPUT.name or task.name == INPUT.name)
    and (not INPUT.reason or task.letter.reason == INPUT.reason)
    and (not INPUT.since or task.finished >= INPUT.since)
    and (not INPUT.till or task.finished < INPUT.till)
end

-- The matching tasks, at most `limit`, and the sequence number to go on below: '' at the end.
local function matching()
  local ids, found = INPUT.ids, {}
  if not ids then
    local below = INPUT.before and string.format('(%d', INPUT.before) or '+inf'
    ids = redis.call('ZREVRANGEBYSCORE', PREFIX .. 'dead', below, '-inf', 'LIMIT', 0, INPUT.stretch)
  end
  read(ids)
  local last, seen = '', {}
  for _, id in ipairs(ids) do
    local task = tasks[id]
    if not INPUT.ids then
      last = task and task.letter and task.letter.seq or last
    end
    if matches(task) and not seen[id] then
      seen[id] = true
      found[#found + 1] = task
      if not INPUT.ids and #found == INPUT.limit then
        return found, last
      end
    end
  end
  if INPUT.ids then
    table.sort(found, function(a, b) return a.letter.seq > b.letter.seq end)
    local first = {}
    for i = 1, math.min(#found, INPUT.limit) do
      first[i] = found[i]
    end
    return first, #found > #first and first[#first] and first[#first].letter.seq or ''
  end
  return found, #ids == INPUT.stretch and last or ''
end
