-- needs: call tasks entry log handoff
-- Broker.push: store tasks that have no options and differ only in id, meta and body. Stores all, or none if an id is known.
-- INPUT {name, queue, priority, ids (distinct), event data}; the event data is a list with JSON or false for each task, or false
-- if no task has any. ARGV[3] and on: the fields ID to BODY of each task, packed, which are stored as they are.
-- Reply: 1 if the tasks were stored, else 0.
-- A single task is leased and published to a waiting worker, if there is one and no other task is ready before it.
local name, queue, priority, ids, data = unpack(INPUT)
local count, keys = #ids, {}
for i = 1, count do
  keys[i] = PREFIX .. 't:' .. ids[i]
end
if spread(keys, 'EXISTS') > 0 then
  return 0
end

local last, rank = last_number('seq'), (9 - priority) * RANK
local front, back = new_front(false, false, false), new_back(NOW)
local pack, writes, index, ready = cmsgpack.pack, {}, {}, {}

-- The waiting worker that the task is leased to, if there is one; its channel is told when all is written.
local function hand_over()
  local number, registration = waiting_worker(queue)
  if not number then
    return nil
  end
  -- As a claim makes it: never below the clock.
  numbers.fence = math.max(last_number('fence') + 1, NOW)
  writes[1], writes[2] = keys[1],
    packed_head(WIDTH, numbers.fence, true) .. front:sub(HEAD + 1) .. pack(last + 1) .. ARGV[3] .. back
  local given = PREFIX .. 'given:' .. number
  redis.call('ZADD', PREFIX .. 'leases', NOW + registration.lease, ids[1])
  redis.call('HINCRBY', PREFIX .. 'running', queue, 1)
  redis.call('RPUSH', given, string.format('%d:', numbers.fence) .. ids[1])
  redis.call('PEXPIRE', given, REGISTRATION_LIFE)
  use_slots(number, registration, 1)
  return number
end

for i = 1, count do
  local id, seq, even = ids[i], last + i, 2 * i
  local odd = even - 1
  writes[odd], writes[even] = keys[i], front .. pack(seq) .. ARGV[i + 2] .. back
  index[odd], index[even] = seq, id
  ready[odd], ready[even] = rank + seq, id
end
local worker = count == 1 and hand_over()
numbers.seq = last + count
spread(writes, 'MSET')
spread(index, 'ZADD', PREFIX .. 'index')
if worker then
  redis.call('SADD', PREFIX .. 'queues', queue)
else
  spread(ready, 'ZADD', PREFIX .. 'ready:' .. queue)
  announce(queue)
end
for first = 1, count, CHUNK do
  local last = math.min(first + CHUNK - 1, count)
  local some, more = { unpack(ids, first, last) }, data and { unpack(data, first, last) }
  write_chunk({ 'enqueued', NOW, some, name, queue, 0, false, NOW, false, more }, #some)
end
close_log()
flush_numbers()
if worker then
  redis.call('PUBLISH', worker_channel(worker), writes[2])
end
return 1
