-- needs: call tasks entry log endings write_batch
-- Schedules.write: store the entry, its state and the pushes, all or none, unless the entry has changed since it was read.
-- INPUT {id, is_new, due or false, entry as JSON, state as JSON, ids of the pushes,
--   name, queue and data of the `scheduled` event of each}. ARGV[3] what was stored when the caller
--   read it, which includes the revision; not used if `is_new`. ARGV[4] the pushes, as push.lua reads them.
-- Reply: the new revision; 0 if the entry has changed, and nothing was written.
local id, is_new, due, entry, state, pushed, scheduled = unpack(INPUT)
local stored = redis.call('HGET', PREFIX .. 'schedules', id)
if is_new and stored or not is_new and stored ~= ARGV[3] then
  return 0
end
local revision = number('schedule')
local offset, created = first_item(ARGV[4]), nil
read(pushed)
for i = 1, #pushed do
  created, offset = push(ARGV[4], offset)
  if created == true then
    local name, queue, data = unpack(scheduled[i])
    log(1, 'scheduled', NOW, pushed[i], name, queue, 0, false, NOW, false, data)
  end
end
-- The tasks first: if the server fails in between, the instant is fired again, and its tasks are known.
commit()
if due then
  redis.call('ZADD', PREFIX .. 'schedules:due', string.format('%d', due), id)
else
  redis.call('ZREM', PREFIX .. 'schedules:due', id)
end
redis.call('HSET', PREFIX .. 'schedules', id, cmsgpack.pack({ revision, entry, state }))
redis.call('PUBLISH', PREFIX .. 'schedules', '')
return revision
