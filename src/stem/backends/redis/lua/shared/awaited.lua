-- Remember the ends of tasks for which others wait; prerequisites.lua carries them on.
local counting, counted = {}, {} -- tasks that wait for others; each → those of them that have succeeded just now
local failed = {} -- tasks that have failed just now: {id, how many of those that wait for it have been told}

-- Who waits, or waited, for the task.
local function dependents(id, awaited)
  if awaited == true then
    return redis.call('LRANGE', PREFIX .. 'dependents:' .. id, 0, -1)
  end
  return awaited and { awaited } or {}
end

local function note_end(id, awaited, has_succeeded)
  if not has_succeeded then
    failed[#failed + 1] = { id, 0 }
    return
  end
  for _, dependent in ipairs(dependents(id, awaited)) do
    local list = counted[dependent]
    if not list then
      list = {}
      counted[dependent], counting[#counting + 1] = list, dependent
    end
    list[#list + 1] = id
  end
end

-- The last fields of a task that ended well. Those that wait for it will be told. Members of one join share them.
local last_awaited, last_links
local function closed_links(id, packed, behind)
  local _, _, _, _, _, _, awaited, _, _, _, ends, passes, _, steps = cmsgpack.unpack_limit(packed, STEPS - BODY + 2, behind)
  if awaited then
    note_end(id, awaited, true)
  end
  if awaited ~= last_awaited or ends or passes or steps then
    last_awaited = not (ends or passes or steps) and awaited or nil
    last_links =
      cmsgpack.pack(false, false, false, 0, false, awaited, false, false, false, ends, passes, false, steps, false)
  end
  return last_links
end
