-- needs: call tasks entry log endings closing
-- Broker.claim: lease the best due tasks of all named queues, each to one claim only; end those that have expired.
-- INPUT {queues, limit, lease, expired = the error of an expired task, as JSON}
-- Reply: 1 if there is more to end or to deliver, else 0; the packed tasks; the bodies that are stored under keys of their own;
--   the microseconds until the next delayed task is due, or -1 if the limit was reached or no task is delayed; the rank that
--   the score of each task gave it, a byte per task: 48 + 9 - priority; and the ids of tasks that have expired and that
--   expire.lua has to end, because their end may concern others. They stay in their queue.
local AT_ONCE = 1000 -- how many expired tasks one call ends
local PROMOTED = 5000 -- how many delayed tasks one call makes ready, over all queues

local seen = {} -- queue → how many of its ready tasks have been looked at; all of these leave the queue

-- As a byte; one that no push has given is 255.
local function rank_of(score)
  local rank = math.floor(score / RANK)
  return string.char(rank >= 0 and rank <= 9 and 48 + rank or 255)
end

-- The ids, and the rank of each.
local function next_of_one(queue, count)
  local first, key = seen[queue], PREFIX .. 'ready:' .. queue
  local range = redis.call('ZRANGE', key, first, first + count - 1, 'WITHSCORES')
  local ids, ranks = {}, {}
  for i = 1, #range / 2 do
    ids[i], ranks[i] = range[2 * i - 1], rank_of(tonumber(range[2 * i]))
  end
  seen[queue] = first + #ids
  return ids, ranks
end

-- Also returns the queue of each.
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
  local ids, ranks, queues = {}, {}, {}
  for i = 1, math.min(count, #heads) do
    ids[i], ranks[i], queues[i] = heads[i][1], rank_of(heads[i][2]), heads[i][3]
    seen[heads[i][3]] = seen[heads[i][3]] + 1
  end
  return ids, ranks, queues
end

for _, queue in ipairs(INPUT.queues) do
  seen[queue] = 0
end
promote(INPUT.queues, PROMOTED)

local only = #INPUT.queues == 1 and INPUT.queues[1]
local taken, taken_ranks, count, leases, aside, expired = {}, {}, 0, {}, {}, 0
local head, linked_head, lease_end
local left = {} -- packed tasks, for expire.lua

-- Only the head of a task changes with its lease; the rest is copied, and goes out, as it is.
local function lease(id, key, packed, rank, queue, visible)
  if not head then
    -- Never below the clock: a server that lost its last second, in a failover say, must not give a fence out twice.
    numbers.fence = math.max(number('fence'), NOW)
    head, lease_end = packed_head(WIDTH, numbers.fence, true), string.format('%d', NOW + INPUT.lease)
    linked_head = packed_head(LINKED_WIDTH, numbers.fence, true)
  end
  packed = (packed:byte(WIDTH_AT) == LINKED_WIDTH and linked_head or head) .. packed:sub(HEAD + 1)
  write(key, packed)
  count = count + 1
  taken[count], taken_ranks[count] = packed, rank
  leases[2 * count - 1], leases[2 * count] = visible and NOW + visible or lease_end, id
  running[queue] = (running[queue] or 0) + 1
end

repeat
  local wanted = INPUT.limit - count
  local found, ranks, queues
  if only then
    found, ranks = next_of_one(only, wanted)
  else
    found, ranks, queues = next_of_all(wanted)
  end
  local packs, keys = fetch('t:', found)
  for i, packed in ipairs(packs) do
    if packed then
      -- What cannot be read, or is no moment, somebody has written by hand: it must not keep the others back.
      local is_read, _, state, expires, visible, is_aside = pcall(cmsgpack.unpack_limit, packed, 4, HEAD)
      if type(expires) == 'number' and expires <= NOW and packed:byte(WIDTH_AT) == LINKED_WIDTH then
        left[#left + 1] = packed
        expired = expired + 1
      elseif type(expires) == 'number' and expires <= NOW then
        pcall(expire, found[i], keys[i], packed, INPUT.expired)
        expired = expired + 1
      elseif is_read and state ~= nil and not TERMINAL[state] then
        lease(found[i], keys[i], packed, ranks[i], only or queues[i], type(visible) == 'number' and visible)
        if is_aside then
          aside[#aside + 1] = found[i]
        end
      end
    end
  end
until #found == 0 or count == INPUT.limit or expired >= AT_ONCE

local bodies_aside = {}
for i, body in ipairs(fetch('b:', aside)) do
  bodies_aside[i] = body or ''
end
for queue, looked_at in pairs(seen) do
  if looked_at > 0 then
    redis.call('ZREMRANGEBYRANK', PREFIX .. 'ready:' .. queue, 0, looked_at - 1)
  end
end
local left_ids = {}
for _, packed in ipairs(left) do
  local task = readable(packed)
  if task then
    left_ids[#left_ids + 1] = task[ID]
    redis.call('ZADD', PREFIX .. 'ready:' .. task[QUEUE], (9 - task[PRIORITY]) * RANK + task[SEQ], task[ID])
  end
end
write_endings()
spread(leases, 'ZADD', PREFIX .. 'leases')
close_log()
flush_numbers()
local due = -1
if count < INPUT.limit then
  for _, queue in ipairs(INPUT.queues) do
    local first = redis.call('ZRANGE', PREFIX .. 'delayed:' .. queue, 0, 0, 'WITHSCORES')[2]
    if first then
      local left = math.max(0, tonumber(first) - NOW)
      due = due < 0 and left or math.min(due, left)
    end
  end
end
return {
  expired >= AT_ONCE and count < INPUT.limit and 1 or 0, taken, bodies_aside, due, table.concat(taken_ranks), left_ids,
}
