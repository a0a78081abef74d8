-- needs: call
-- Locks.acquire: the fencing number if the lock is free or the owner's own; it grows with every change of hands.
-- INPUT {name, owner, ttl in milliseconds}
-- Reply: the number; 0 if another holds it.
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
