-- needs: call
-- Locks.renew and release: renew the owner's lock; a ttl of 0 releases it.
-- INPUT {name, owner, ttl in milliseconds}
-- Reply: 1, or 0 if the lock has expired or another owner holds it.
local key = PREFIX .. 'lock:' .. INPUT.name
if redis.call('HGET', key, 'owner') ~= INPUT.owner then
  return 0
end
redis.call('PEXPIRE', key, INPUT.ttl)
return 1
