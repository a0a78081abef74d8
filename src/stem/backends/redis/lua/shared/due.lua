-- Tell when a claim may find a task: microseconds until then; 0 for now, -1 if no task waits.
local function due_in(queues)
  local first = -1
  for _, queue in ipairs(queues) do
    if redis.call('EXISTS', PREFIX .. 'ready:' .. queue) == 1 then
      return 0
    end
    local head = redis.call('ZRANGE', PREFIX .. 'delayed:' .. queue, 0, 0, 'WITHSCORES')
    if head[2] then
      local left = math.max(0, tonumber(head[2]) - NOW)
      if first < 0 or left < first then
        first = left
      end
    end
  end
  return first
end
