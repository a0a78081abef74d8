-- needs: call tasks entry log endings awaited write_batch
-- Upkeep.prune, one step: delete records, events and minutes past their retention. All other keys expire by themselves.
-- INPUT {limit, results = ended up to here, events = logged up to here}
-- Reply: how many records, events, minutes and workers were deleted.
local log = PREFIX .. 'events'
local floor, offset = last_number('floor'), last_number('offset')
local before = floor

-- When each event of the chunk was; a row of kind 'ran' is two.
local function moments_of(chunk)
  local kinds, at, ids, started, moments = chunk[1], chunk[2], chunk[3], chunk[9], {}
  for i = 1, #ids do
    if (type(kinds) == 'table' and kinds[i] or kinds) == 'ran' then
      moments[#moments + 1] = type(started) == 'table' and started[i] or started
    end
    moments[#moments + 1] = type(at) == 'table' and at[i] or at
  end
  return moments
end

local function drop_old_events(entry)
  local last = tonumber(entry[1]:match('^%d+'))
  local moments = moments_of(cmsgpack.unpack(entry[2][2]))
  for i, moment in ipairs(moments) do
    local at = last - #moments + i
    if at > floor then
      if moment > INPUT.events then
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
-- They expire by themselves, unless the retention has been shortened since; their places in the index do not.
local minutes = redis.call(
  'ZRANGEBYSCORE', PREFIX .. 'rollups', '-inf', string.format('%d', INPUT.events), 'LIMIT', 0, INPUT.limit
)
for _, minute in ipairs(minutes) do
  redis.call('UNLINK', PREFIX .. 'rollups:' .. minute)
  redis.call('ZREM', PREFIX .. 'rollups', minute)
end
return forget(INPUT.results, INPUT.limit)
  + floor - before
  + #minutes
  + redis.call('ZREMRANGEBYSCORE', PREFIX .. 'workers', '-inf', NOW)
