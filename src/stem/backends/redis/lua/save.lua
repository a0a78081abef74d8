-- needs: call space
-- Results.save: keep records of tasks that another store runs, all or none, each unless the one here is later.
-- INPUT records, as tasks with their id
-- Reply: how many were kept.
local LIVE = { 'seq', 'due', 'expires', 'visible', 'deaths', 'held', 'unique', 'letter' }

local function stage(task)
  return TERMINAL[task.state] and 2 or task.state == 'running' and 1 or 0
end

local function is_later(a, b)
  for _, pair in ipairs({
    { a.fence or 0, b.fence or 0 }, { a.attempt or 0, b.attempt or 0 }, { stage(a), stage(b) },
  }) do
    if pair[1] ~= pair[2] then
      return pair[1] > pair[2]
    end
  end
  return false
end

local ids, kept = {}, {}
for i, record in ipairs(INPUT) do
  ids[i] = record.id
end
read(ids)
for _, record in ipairs(INPUT) do
  local old = tasks[record.id]
  if not (old and is_later(old, record)) then
    if old then
      for _, field in ipairs(LIVE) do
        record[field] = old[field]
      end
    else
      record.seq = number('seq')
      indexed[#indexed + 1] = record.seq
      indexed[#indexed + 1] = record.id
    end
    tasks[record.id] = record
    kept[record.id] = record
  end
end
for _, record in pairs(kept) do
  touch(record)
end
commit()
return #changed
