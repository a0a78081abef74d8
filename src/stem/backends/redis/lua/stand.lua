-- needs: call tasks due seats
-- Broker.stand_by: take a seat, or keep it, for so many tasks and so long; with room for none, leave it.
-- INPUT {number, queues, room, lease, life, heard = the ids that it has heard of since the last time}
-- Reply: when a claim may find something, as due.lua has it; what it was handed and has not heard of, packed, its leases begun
-- anew; and for how long the oldest of it has been there. That comes again, until it says that it has heard of it.
local number, name = INPUT.number, seat_channel(INPUT.number)
local given, heard = PREFIX .. 'given:' .. number, {}
for _, id in ipairs(INPUT.heard) do
  heard[id] = true
end

local ids, fences = {}, {}
for _, entry in ipairs(redis.call('LRANGE', given, 0, -1)) do
  local fence, id = entry:match('^(%d+):(.*)$')
  if not heard[id] then
    ids[#ids + 1], fences[#fences + 1] = id, fence
  end
end
local packs, unheard, left, oldest = fetch('t:', ids), {}, {}, 0
for i, packed in ipairs(packs) do
  -- With another fence, or held no more, it is another's.
  if packed and packed:sub(1, HEAD) == packed_head(WIDTH, tonumber(fences[i]), true) then
    unheard[#unheard + 1], left[#left + 1] = packed, fences[i] .. ':' .. ids[i]
    redis.call('ZADD', PREFIX .. 'leases', 'GT', NOW + INPUT.lease, ids[i])
    oldest = math.max(oldest, NOW - tonumber(fences[i]))
  end
end

local before = redis.call('GET', name)
if before then
  fill_seat(number, cmsgpack.unpack(before))
end
local room = INPUT.room - #left
redis.call('DEL', name, given)
if #left > 0 then
  redis.call('RPUSH', given, unpack(left))
  redis.call('PEXPIRE', given, SEAT_LIFE)
end
if room > 0 then
  local seat = { till = NOW + INPUT.life, lease = INPUT.lease, queues = INPUT.queues }
  redis.call('SET', name, cmsgpack.pack(seat), 'PX', SEAT_LIFE)
  for _, queue in ipairs(INPUT.queues) do
    redis.call('ZADD', PREFIX .. 'seats:' .. queue, room, number)
    redis.call('PEXPIRE', PREFIX .. 'seats:' .. queue, SEAT_LIFE)
  end
end
return { due_in(INPUT.queues), unheard, oldest }
