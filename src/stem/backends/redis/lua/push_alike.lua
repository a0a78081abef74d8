-- needs: call tasks entry log seats
-- Broker.push of many that differ in id, meta and body only, and have no options: store all, or none if an id is known.
-- INPUT {name, queue, priority, ids, each once}. ARGV[3] and on: what is stored of each as it came, packed: fields ID to BODY.
-- Reply: 1 if they are stored.
-- A single one is handed to a worker that waits, if there is one and nothing is ahead: leased to it, and told to it whole.
local name, queue, priority, ids = unpack(INPUT)
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

-- To whom it is handed, if to anybody; he is told when all is written.
local function hand_over()
  local number, seat = seat_for(queue)
  if not number then
    return nil
  end
  -- As a claim makes it: never below the clock.
  numbers.fence = math.max(last_number('fence') + 1, NOW)
  writes[1], writes[2] = keys[1],
    packed_head(WIDTH, numbers.fence, true) .. front:sub(HEAD + 1) .. pack(last + 1) .. ARGV[3] .. back
  local given = PREFIX .. 'given:' .. number
  redis.call('ZADD', PREFIX .. 'leases', NOW + seat.lease, ids[1])
  redis.call('HINCRBY', PREFIX .. 'running', queue, 1)
  redis.call('RPUSH', given, string.format('%d:', numbers.fence) .. ids[1])
  redis.call('PEXPIRE', given, SEAT_LIFE)
  fill_seat(number, seat, 1)
  return number
end

for i = 1, count do
  local id, seq, even = ids[i], last + i, 2 * i
  local odd = even - 1
  writes[odd], writes[even] = keys[i], front .. pack(seq) .. ARGV[i + 2] .. back
  index[odd], index[even] = seq, id
  ready[odd], ready[even] = rank + seq, id
end
local taker = count == 1 and hand_over()
numbers.seq = last + count
spread(writes, 'MSET')
spread(index, 'ZADD', PREFIX .. 'index')
if taker then
  redis.call('SADD', PREFIX .. 'queues', queue)
else
  spread(ready, 'ZADD', PREFIX .. 'ready:' .. queue)
  announce(queue)
end
for first = 1, count, CHUNK do
  local some = { unpack(ids, first, math.min(first + CHUNK - 1, count)) }
  write_chunk({ 'enqueued', NOW, some, name, queue, 0, false, NOW, false, false }, #some)
end
close_log()
flush_numbers()
if taker then
  redis.call('PUBLISH', seat_channel(taker), writes[2])
end
return 1
