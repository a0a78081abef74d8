-- needs: call tasks space
-- Upkeep.prune, one step: drop outlived records and events. All other keys expire by themselves.
-- INPUT {limit, results = ended up to here, events = logged up to here}
-- Reply: how many records, events and workers went.
local log = PREFIX .. 'events'
local floor, offset = last_number('floor'), last_number('offset')
local before = floor

local function drop_old_events(entry)
  local last = tonumber(entry[1]:match('^%d+'))
  local chunk = cmsgpack.unpack(entry[2][2])
  local moments, count = chunk[2], #chunk[3]
  for i = 1, count do
    local at = last - count + i
    if at > floor then
      if (type(moments) == 'table' and moments[i] or moments) > INPUT.events then
        return false
      end
      floor = at
    end
  end
  return true
end

floor = math.max(floor, offset - RETENTION.events)
for _, entry in ipairs(redis.call('XRANGE', log, string.format('%d-0', floor + 1), '+', 'COUNT', 100)) do
  if not drop_old_events(entry) then
    break
  end
end
if floor > before then
  numbers.floor = floor
  redis.call('XTRIM', log, 'MINID', string.format('%d-0', floor + 1))
  flush_numbers()
end
return forget(INPUT.results, INPUT.limit)
  + floor - before
  + redis.call('ZREMRANGEBYSCORE', PREFIX .. 'workers', '-inf', NOW)
