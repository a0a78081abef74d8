-- Put a task into its queue: its stored form, its ready score, and the message that wakes waiting workers.
local RANK = 562949953421312 -- 2^49: a priority's share of a ready score; sequence numbers stay below it

-- All of a new task before its sequence number. Most have no options, and share it.
local plain_front
local function new_front(expires, visible, is_aside)
  local is_plain = not (expires or visible or is_aside)
  local front = is_plain and plain_front
    or packed_head(WIDTH, 0, false)
      .. cmsgpack.pack('queued', expires, visible, is_aside, 0, NOW, NOW, false, false, false, false, false, false)
  plain_front = is_plain and front or plain_front
  return front
end

-- All behind its body.
local function new_back(due)
  return cmsgpack.pack(due, 0, false)
end

local function delayed_id(member)
  return member:sub(17)
end

-- Due tasks become ready, at most `limit` of them, so that a million of them cannot stall the server.
local function promote(queues, limit)
  for _, queue in ipairs(queues) do
    local from = PREFIX .. 'delayed:' .. queue
    local members = limit > 0 and redis.call('ZRANGEBYSCORE', from, '-inf', NOW, 'LIMIT', 0, limit) or {}
    if #members > 0 then
      limit = limit - #members
      local scores = {}
      for _, member in ipairs(members) do
        scores[#scores + 1] = (9 - tonumber(member:sub(16, 16))) * RANK + tonumber(member:sub(1, 15))
        scores[#scores + 1] = delayed_id(member)
      end
      spread(scores, 'ZADD', PREFIX .. 'ready:' .. queue)
      redis.call('ZREMRANGEBYRANK', from, 0, #members - 1)
    end
  end
end

local function announce(queue)
  redis.call('SADD', PREFIX .. 'queues', queue)
  redis.call('PUBLISH', PREFIX .. 'wake:' .. queue, '')
end
