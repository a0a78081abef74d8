-- needs: call
-- Locks.acquire: take the lock if it is free or the owner's own. Its fencing number grows with every change of owner.
-- INPUT {name, owner, ttl in milliseconds}
-- Reply: the fencing number; 0 if another owner holds the lock.
local key = PREFIX .. 'lock:' .. INPUT.name
local owner, fence = unpack(redis.call('HMGET', key, 'owner', 'fence'))
if owner and owner ~= INPUT.owner then
  return 0
end
if not owner then
  fence = number('lock')
  flush_numbers()
end
redis.call('HSET', key, 'owner', INPUT.owner, 'fence', fence)
redis.call('PEXPIRE', key, INPUT.ttl)
return tonumber(fence)
