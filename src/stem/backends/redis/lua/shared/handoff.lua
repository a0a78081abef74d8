-- The registrations of waiting workers for a handoff: handoff_register.lua writes them, push_uniform.lua reads them.
local REGISTRATION_LIFE = 60000 -- milliseconds: a registration ends long before; what it was handed can be fetched until then

local function worker_channel(number)
  return PREFIX .. 'seat:' .. number
end

-- The worker can be handed `count` tasks fewer; without a count it can be handed none any more.
local function use_slots(number, registration, count)
  for _, queue in ipairs(registration.queues) do
    local waiting = PREFIX .. 'seats:' .. queue
    if not count or tonumber(redis.call('ZINCRBY', waiting, -count, number)) <= 0 then
      redis.call('ZREM', waiting, number)
    end
  end
end

-- The worker with the most room for the queue that is listening: its number and registration. None if a task is already ready
-- there, which goes first. Whether anybody listens is asked before anything is published: a message reaches replicas whatever
-- becomes of this script.
local function waiting_worker(queue)
  local waiting = PREFIX .. 'seats:' .. queue
  local number = redis.call('ZREVRANGE', waiting, 0, 0)[1]
  if not number or redis.call('EXISTS', PREFIX .. 'ready:' .. queue) == 1 then
    return nil
  end
  local packed = redis.call('GET', worker_channel(number))
  local registration = packed and cmsgpack.unpack(packed)
  if registration and registration.till > NOW then
    if redis.call('PUBSUB', 'NUMSUB', worker_channel(number))[2] > 0 then
      return number, registration
    end
    use_slots(number, registration)
  else
    redis.call('ZREM', waiting, number)
  end
end
