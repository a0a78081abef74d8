-- Workers that wait, and what they may be handed as it is pushed.
local SEAT_LIFE = 60000 -- milliseconds: a seat is nobody's long before; what it was handed is asked for until then

local function seat_channel(number)
  return PREFIX .. 'seat:' .. number
end

-- So many tasks fewer can be handed to it, or none any more.
local function fill_seat(number, seat, count)
  for _, queue in ipairs(seat.queues) do
    local line = PREFIX .. 'seats:' .. queue
    if not count or tonumber(redis.call('ZINCRBY', line, -count, number)) <= 0 then
      redis.call('ZREM', line, number)
    end
  end
end

-- The first in line for the queue that is there: its number, what is known of it. None if something is ahead of a new task.
-- Whether anybody hears is asked before: a word that is said goes out to replicas, too, whatever becomes of this script.
local function seat_for(queue)
  local line = PREFIX .. 'seats:' .. queue
  local number = redis.call('ZREVRANGE', line, 0, 0)[1]
  if not number or redis.call('EXISTS', PREFIX .. 'ready:' .. queue) == 1 then
    return nil
  end
  local packed = redis.call('GET', seat_channel(number))
  local seat = packed and cmsgpack.unpack(packed)
  if seat and seat.till > NOW then
    if redis.call('PUBSUB', 'NUMSUB', seat_channel(number))[2] > 0 then
      return number, seat
    end
    fill_seat(number, seat)
  else
    redis.call('ZREM', line, number)
  end
end
