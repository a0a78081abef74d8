-- needs: call tasks due handoff
-- Broker.wait_for_handoff: register a waiting worker, or renew its registration; with no room, withdraw it.
-- INPUT {number, queues, room, lease, life, received = the ids that reached the worker since the last call}
-- Reply: microseconds until a claim may find a task, as in due.lua; the packed tasks that were handed to the worker and not
--   received, their leases begun anew; and how long ago the oldest of them was handed over. They are returned again until
--   they are acknowledged.
local number, channel = INPUT.number, worker_channel(INPUT.number)
local given, received = PREFIX .. 'given:' .. number, {}
for _, id in ipairs(INPUT.received) do
  received[id] = true
end

local ids, fences = {}, {}
for _, entry in ipairs(redis.call('LRANGE', given, 0, -1)) do
  local fence, id = entry:match('^(%d+):(.*)$')
  if not received[id] then
    ids[#ids + 1], fences[#fences + 1] = id, fence
  end
end
local packs, unheard, left, oldest = fetch('t:', ids), {}, {}, 0
for i, packed in ipairs(packs) do
  -- With another fence, or no lease, the task is no longer this worker's.
  if packed and packed:sub(WIDTH_AT + 1, HEAD) == packed_head(WIDTH, tonumber(fences[i]), true):sub(WIDTH_AT + 1) then
    unheard[#unheard + 1], left[#left + 1] = packed, fences[i] .. ':' .. ids[i]
    redis.call('ZADD', PREFIX .. 'leases', 'GT', NOW + INPUT.lease, ids[i])
    oldest = math.max(oldest, NOW - tonumber(fences[i]))
  end
end

local before = redis.call('GET', channel)
if before then
  use_slots(number, cmsgpack.unpack(before))
end
local room = INPUT.room - #left
redis.call('DEL', channel, given)
if #left > 0 then
  redis.call('RPUSH', given, unpack(left))
  redis.call('PEXPIRE', given, REGISTRATION_LIFE)
end
if room > 0 then
  local registration = { till = NOW + INPUT.life, lease = INPUT.lease, queues = INPUT.queues }
  redis.call('SET', channel, cmsgpack.pack(registration), 'PX', REGISTRATION_LIFE)
  for _, queue in ipairs(INPUT.queues) do
    redis.call('ZADD', PREFIX .. 'seats:' .. queue, room, number)
    redis.call('PEXPIRE', PREFIX .. 'seats:' .. queue, REGISTRATION_LIFE)
  end
end
return { due_in(INPUT.queues), unheard, oldest }
