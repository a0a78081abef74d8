-- needs: call
-- Broker.depth: exact counts a queue.
-- INPUT the queues, or false for every queue that has a task waiting, running or dead
-- Reply, packed: {{queue, ready, delayed, running, dead}, …}
local names = INPUT
if not names then
  local known = {}
  names = redis.call('SMEMBERS', PREFIX .. 'queues')
  for _, name in ipairs(names) do
    known[name] = true
  end
  for _, hash in ipairs({ 'running', 'buried' }) do
    for _, name in ipairs(redis.call('HKEYS', PREFIX .. hash)) do
      if not known[name] then
        known[name] = true
        names[#names + 1] = name
      end
    end
  end
end
local counts = {}
for _, queue in ipairs(names) do
  local due = redis.call('ZCOUNT', PREFIX .. 'delayed:' .. queue, '-inf', NOW)
  local count = {
    queue,
    redis.call('ZCARD', PREFIX .. 'ready:' .. queue) + due,
    redis.call('ZCARD', PREFIX .. 'delayed:' .. queue) - due,
    tonumber(redis.call('HGET', PREFIX .. 'running', queue) or 0),
    tonumber(redis.call('HGET', PREFIX .. 'buried', queue) or 0),
  }
  if INPUT or count[2] + count[3] + count[4] + count[5] > 0 then
    counts[#counts + 1] = count
  end
end
return cmsgpack.pack(counts)
