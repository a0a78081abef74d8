-- needs: call tasks entry log
-- Broker.push of many that differ in id, meta and body only, and have no options: store all, or none if an id is known.
-- INPUT {name, queue, priority, ids, each once}. ARGV[3] and on: what is stored of each as it came, packed: fields ID to BODY.
-- Reply: 1 if they are stored.
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
for i = 1, count do
  local id, seq, even = ids[i], last + i, 2 * i
  local odd = even - 1
  writes[odd], writes[even] = keys[i], front .. pack(seq) .. ARGV[i + 2] .. back
  index[odd], index[even] = seq, id
  ready[odd], ready[even] = rank + seq, id
end
numbers.seq = last + count
spread(writes, 'MSET')
spread(index, 'ZADD', PREFIX .. 'index')
spread(ready, 'ZADD', PREFIX .. 'ready:' .. queue)
announce(queue)
for first = 1, count, CHUNK do
  local some = { unpack(ids, first, math.min(first + CHUNK - 1, count)) }
  write_chunk({ 'enqueued', NOW, some, name, queue, 0, false, NOW, false, false }, #some)
end
close_log()
flush_numbers()
return 1
