-- Keep a step of a task, with its place among the others; returns whether it is the first of its name.
local function put_step(task, name, payload)
  local key = PREFIX .. 'steps:' .. task[ID]
  if redis.call('HSETNX', key, name, cmsgpack.pack({ redis.call('HLEN', key), NOW, payload })) == 0 then
    return false
  end
  if not task[STEPS] then
    touch(task)
    task[STEPS] = true
  end
  return true
end
