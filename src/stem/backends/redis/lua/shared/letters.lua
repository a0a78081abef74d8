-- Find dead letters that match a filter, newest first, in one bounded stretch of their index.
-- INPUT {ids?, before?, limit, stretch, queue?, name?, reason?, since?, till?}

local function matches(task)
  local letter = task and task[LETTER]
  return letter
    and (not INPUT.before or letter[L_SEQ] < INPUT.before)
    and (not INPUT.queue or task[QUEUE] == INPUT.queue)
    and (not INPUT.name or task[NAME] == INPUT.name)
    and (not INPUT.reason or letter[L_REASON] == INPUT.reason)
    and (not INPUT.since or task[FINISHED] >= INPUT.since)
    and (not INPUT.till or task[FINISHED] < INPUT.till)
end

local function is_newer(a, b)
  return a[LETTER][L_SEQ] > b[LETTER][L_SEQ]
end

-- Both return the matching tasks, at most `limit`, and the sequence number to go on below: '' at the end.

local function among(ids)
  local all, found, seen = {}, {}, {}
  for _, id in ipairs(ids) do
    if matches(tasks[id]) and not seen[id] then
      seen[id] = true
      all[#all + 1] = tasks[id]
    end
  end
  table.sort(all, is_newer)
  for i = 1, math.min(#all, INPUT.limit) do
    found[i] = all[i]
  end
  return found, #all > #found and #found > 0 and found[#found][LETTER][L_SEQ] or ''
end

local function along(ids)
  local found, last = {}, ''
  for _, id in ipairs(ids) do
    local task = tasks[id]
    last = task and task[LETTER] and task[LETTER][L_SEQ] or last
    if matches(task) then
      found[#found + 1] = task
      if #found == INPUT.limit then
        return found, last
      end
    end
  end
  return found, #ids == INPUT.stretch and last or ''
end

local function matching()
  if INPUT.ids then
    read(INPUT.ids)
    return among(INPUT.ids)
  end
  local below = INPUT.before and string.format('(%d', INPUT.before) or '+inf'
  local ids = redis.call('ZREVRANGEBYSCORE', PREFIX .. 'dead', below, '-inf', 'LIMIT', 0, INPUT.stretch)
  read(ids)
  return along(ids)
end
