-- needs: call tasks entry log endings awaited write_batch prerequisites pushing
-- Schedules.write: store the entry, its state and the pushes, all or none, unless the entry has changed since it was read.
-- INPUT {id, is_new, due or false, entry as JSON, state as JSON, ids of the pushes, checks, awaiting,
--   name, queue and data of the `scheduled` event of each push}. ARGV[3] what was stored when the caller
--   read it, which includes the revision; not used if `is_new`. ARGV[4] the pushes, as shared/pushing.lua reads them.
-- Reply: the new revision; 0 if the entry has changed, and nothing was written; or packed, as that of push.lua, what is missing.
local id, is_new, due, entry, state, pushed, checks, scheduled
id, is_new, due, entry, state, pushed, checks, awaiting, scheduled = unpack(INPUT)
local stored = redis.call('HGET', PREFIX .. 'schedules', id)
if is_new and stored or not is_new and stored ~= ARGV[3] then
  return 0
end
read(pushed)
local refusal = missing(checks)
if refusal then
  return cmsgpack.pack(refusal)
end
local revision = number('schedule')
local offset, created = first_item(ARGV[4]), nil
for i = 1, #pushed do
  created, offset = push(ARGV[4], offset)
  if created == true or type(created) == 'table' then
    local name, queue, data = unpack(scheduled[i])
    log(1, 'scheduled', NOW, pushed[i], name, queue, 0, false, NOW, false, data)
  end
end
-- The tasks first: if the server fails in between, the instant is fired again, and its tasks are known.
carry_on()
commit()
if due then
  redis.call('ZADD', PREFIX .. 'schedules:due', string.format('%d', due), id)
else
  redis.call('ZREM', PREFIX .. 'schedules:due', id)
end
redis.call('HSET', PREFIX .. 'schedules', id, cmsgpack.pack({ revision, entry, state }))
redis.call('PUBLISH', PREFIX .. 'schedules', '')
return revision
