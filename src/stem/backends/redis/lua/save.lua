-- needs: call tasks entry log endings awaited write_batch
-- Results.save: keep records of tasks that another store runs, all or none; a later record here is left alone.
-- INPUT the ids. ARGV[3] the records in the same order, a packed list of tasks
-- Reply: how many were kept.
local LIVE = { SEQ, VISIBLE, ASIDE, DUE, EXPIRES, DEATHS, HELD, UNIQUE, LETTER, BODY }
local LINKS = { AWAITED, PENDING, ON_FAILURE, RELEASE_DELAY, ENDS, PASSES, EVENT, STEPS, SINCE }
local TASK_HEAD = 4 -- bytes of an item before its second field: the array's head, and the format

local function stage(task)
  return TERMINAL[task[STATE]] and 2 or task[STATE] == 'running' and 1 or 0
end

local function is_later(a, b)
  if a[FENCE] ~= b[FENCE] then
    return a[FENCE] > b[FENCE]
  end
  if a[ATTEMPT] ~= b[ATTEMPT] then
    return a[ATTEMPT] > b[ATTEMPT]
  end
  return stage(a) > stage(b)
end

local offset, kept = first_item(ARGV[3]), {}
read(INPUT)
for _, id in ipairs(INPUT) do
  local record, behind = thaw(ARGV[3], offset + TASK_HEAD, WIDTH)
  local old = tasks[id]
  offset = behind
  if not old then
    record[SEQ] = number('seq')
    indexed[#indexed + 1] = record[SEQ]
    indexed[#indexed + 1] = id
  end
  if not (old and is_later(old, record)) then
    for _, field in ipairs(old and LIVE or {}) do
      record[field] = old[field]
    end
    for _, field in ipairs(old and LINKS or {}) do
      record[field] = old[field]
    end
    tasks[id], kept[id] = record, record
  end
end
for _, record in pairs(kept) do
  touch(record)
end
commit()
return changes
