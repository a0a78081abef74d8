-- needs: call
-- Schedules.delete: delete the entry, readable or not, and wake who waits for schedules.
-- ARGV[3] its id, which may be any bytes.
-- Reply: 1 if it was there, else 0.
local is_deleted = redis.call('HDEL', PREFIX .. 'schedules', ARGV[3])
redis.call('ZREM', PREFIX .. 'schedules:due', ARGV[3])
if is_deleted == 1 then
  number('schedule') -- the next wait sees by it that something has changed
  flush_numbers()
  redis.call('PUBLISH', PREFIX .. 'schedules', '')
end
return is_deleted
