-- needs: call
-- Locks.renew and release: only the owner may; a ttl of 0 gives the lock up.
-- INPUT {name, owner, ttl in milliseconds}
-- Reply: 1, or 0 if it is not the owner's or has expired.
local key = PREFIX .. 'lock:' .. INPUT.name
if redis.call('HGET', key, 'owner') ~= INPUT.owner then
  return 0
end
redis.call('PEXPIRE', key, INPUT.ttl)
return 1
