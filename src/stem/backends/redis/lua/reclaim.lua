-- needs: call tasks entry log endings awaited write_batch prerequisites lost
-- Broker.reclaim: take back tasks whose lease has expired, oldest first; after too many deaths a task becomes a dead letter.
-- It also goes on with what earlier calls have left in `cascade`.
-- INPUT {limit, deaths, grace}
-- Reply, packed: {{returned ids}, {dead ids}}

-- Whether reclaim has been called for the grace without a gap: core/decisions/reclaim_watch.py says why. Written only while something is leased.
local function is_watched()
  local watch = PREFIX .. 'watch'
  if redis.call('EXISTS', PREFIX .. 'leases') == 0 then
    return false
  end
  local seen, since = unpack(redis.call('HMGET', watch, 'seen', 'since'))
  since = tonumber(since)
  if not (seen and since) or NOW - tonumber(seen) > INPUT.grace or since > NOW then
    since = NOW
  end
  redis.call('HSET', watch, 'seen', string.format('%d', NOW), 'since', string.format('%d', since))
  redis.call('PEXPIRE', watch, math.ceil(INPUT.grace / 500)) -- in milliseconds: longer without a call is a gap anyway
  return NOW - since >= INPUT.grace
end

local cascade = redis.call('LRANGE', PREFIX .. 'cascade', 0, CASCADE - 1)
if #cascade > 0 then
  redis.call('LTRIM', PREFIX .. 'cascade', #cascade, -1)
  carry_on(cascade)
end
if INPUT.grace > 0 and not is_watched() then
  if #cascade > 0 then
    commit()
  end
  return cmsgpack.pack({ {}, {} })
end
local range = redis.call('ZRANGEBYSCORE', PREFIX .. 'leases', '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, INPUT.limit)
local ids, ends, lost, returned, given_up = {}, {}, {}, {}, {}
for i = 1, #range, 2 do
  ids[#ids + 1] = range[i]
  ends[range[i]] = tonumber(range[i + 1])
end
read(ids)
for _, id in ipairs(ids) do
  if tasks[id] and tasks[id][HELD] then
    lost[#lost + 1] = tasks[id]
  else
    drop_lease(id) -- its record was evicted or overwritten
  end
end
table.sort(lost, function(a, b)
  local a_end, b_end = ends[a[ID]], ends[b[ID]]
  return a_end < b_end or a_end == b_end and a[SEQ] < b[SEQ]
end)

for _, task in ipairs(lost) do
  if task[STATE] == 'running' then
    task[DEATHS] = task[DEATHS] + 1
  end
  if task[DEATHS] >= INPUT.deaths then
    local failure = {
      type = 'WorkerLost',
      message = 'Worker ' .. (task[WORKER] or 'None') .. ' was lost while it ran the task.',
      retryable = true,
    }
    fail(
      task, 'crash-loop', cjson.encode(failure), cjson.encode({ deaths = task[DEATHS], runs = task[ATTEMPT] + task[DEATHS] }),
      cjson.encode({ reason = 'crash-loop', error = failure })
    )
    given_up[#given_up + 1] = task[ID]
  else
    if task[STATE] == 'running' then
      redis.call('SET', lost_key(task[ID], task[FENCE]), '', 'PX', LOST)
    end
    -- Told first: the event names the lost worker and when the attempt started.
    tell('requeued', task, NOW, '{"reason":"lease-expired"}')
    wait_again(task, NOW)
    returned[#returned + 1] = task[ID]
  end
end
carry_on()
commit()
return cmsgpack.pack({ returned, given_up })
