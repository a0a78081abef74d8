-- needs: call space
-- Broker.reclaim: take back tasks whose lease has run out, oldest first; too many deaths are a crash loop.
-- INPUT {limit, deaths}
-- Reply, packed: {{returned ids}, {dead ids}}
local members = redis.call('ZRANGEBYSCORE', PREFIX .. 'leases', '-inf', NOW, 'LIMIT', 0, INPUT.limit)
local ids, returned, given_up = {}, {}, {}
for i, member in ipairs(members) do
  ids[i] = member:sub(17)
end
read(ids)
for i, id in ipairs(ids) do
  local task = tasks[id]
  if not (task and task.held) then
    leases_gone[#leases_gone + 1] = members[i] -- its record was evicted or overwritten
  else
    if task.state == 'running' then
      task.deaths = (task.deaths or 0) + 1
    end
    if (task.deaths or 0) >= INPUT.deaths then
      local failure = {
        type = 'WorkerLost',
        message = 'Worker ' .. (task.worker or 'None') .. ' was lost while it ran the task.',
        retryable = true,
      }
      bury(
        task, 'crash-loop', cjson.encode(failure), cjson.encode({ deaths = task.deaths }),
        cjson.encode({ reason = 'crash-loop', error = failure })
      )
      given_up[#given_up + 1] = id
    else
      -- Told first: the event names the lost worker and when the attempt started.
      tell('requeued', task, NOW, '{"reason":"lease-expired"}')
      wait_again(task, NOW)
      returned[#returned + 1] = id
    end
  end
end
commit()
return cmsgpack.pack({ returned, given_up })
