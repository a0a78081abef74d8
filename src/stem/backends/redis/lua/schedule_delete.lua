-- needs: call
-- Schedules.delete: delete the entry, readable or not, and wake who waits for schedules.
-- INPUT {id}
-- Reply: 1 if it was there, else 0.
local is_deleted = redis.call('HDEL', PREFIX .. 'schedules', INPUT.id)
redis.call('ZREM', PREFIX .. 'schedules:due', INPUT.id)
if is_deleted == 1 then
  number('schedule') -- the next wait sees by it that something has changed
  flush_numbers()
  redis.call('PUBLISH', PREFIX .. 'schedules', '')
end
return is_deleted
