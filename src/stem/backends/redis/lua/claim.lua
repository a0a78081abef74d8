-- needs: call tasks space
-- Broker.claim: lease the best due tasks of all named queues; end those that have expired. Each task to one claim only.
-- INPUT {queues, limit, lease, expired = the error of an expired task, as JSON}
-- Reply, packed: {fence, {{id, name, queue, attempt, deaths, body}, …}, is there more to end or to deliver}
local AT_ONCE = 1000 -- how many expired tasks one call ends
local PROMOTED = 5000

local seen = {} -- queue → how many of its ready tasks have been looked at; all of these leave the queue

local function next_of_one(queue, count)
  local first = seen[queue]
  local ids = redis.call('ZRANGE', PREFIX .. 'ready:' .. queue, first, first + count - 1)
  seen[queue] = first + #ids
  return ids
end

local function next_of_all(count)
  local heads = {}
  for _, queue in ipairs(INPUT.queues) do
    local first = seen[queue]
    local range = redis.call('ZRANGE', PREFIX .. 'ready:' .. queue, first, first + count - 1, 'WITHSCORES')
    for i = 1, #range, 2 do
      heads[#heads + 1] = { range[i], tonumber(range[i + 1]), queue }
    end
  end
  table.sort(heads, function(a, b) return a[2] < b[2] end)
  local ids = {}
  for i = 1, math.min(count, #heads) do
    ids[i] = heads[i][1]
    seen[heads[i][3]] = seen[heads[i][3]] + 1
  end
  return ids
end

for _, queue in ipairs(INPUT.queues) do
  seen[queue] = 0
end
promote(INPUT.queues, PROMOTED)

local taken, leased, fence, expired = {}, {}, false, 0
repeat
  local count = INPUT.limit - #taken
  local found = #INPUT.queues == 1 and next_of_one(INPUT.queues[1], count) or next_of_all(count)
  read(found)
  for _, id in ipairs(found) do
    local task = tasks[id]
    if task and task[EXPIRES] and task[EXPIRES] <= NOW then
      finish(task, 'cancelled', INPUT.expired)
      tell('expired', task, NOW)
      expired = expired + 1
    elseif task and not TERMINAL[task[STATE]] then
      fence = fence or number('fence')
      lease(task, fence, task[VISIBLE] or INPUT.lease)
      leased[#leased + 1] = task
      taken[#taken + 1] = { id, task[NAME], task[QUEUE], task[ATTEMPT], task[DEATHS], false }
    end
  end
until #found == 0 or #taken == INPUT.limit or expired >= AT_ONCE

for i, body in ipairs(bodies_of(leased)) do
  taken[i][6] = body
end
for queue, count in pairs(seen) do
  if count > 0 then
    redis.call('ZREMRANGEBYRANK', PREFIX .. 'ready:' .. queue, 0, count - 1)
  end
end
commit()
return cmsgpack.pack({ fence, taken, expired >= AT_ONCE and #taken < INPUT.limit })
