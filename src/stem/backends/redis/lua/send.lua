-- needs: call
-- Mail.send: put a message into a box; it expires after its time.
-- INPUT {box, ttl}. ARGV[3] the message.
local key = PREFIX .. 'box:' .. INPUT.box
if INPUT.ttl <= 0 then
  return 0
end
for _ = 1, 100 do -- a box that nobody empties stays as short as its messages live
  local head = redis.call('LINDEX', key, 0)
  if not head or tonumber(head:sub(1, 16)) > NOW then
    break
  end
  redis.call('LPOP', key)
end
redis.call('RPUSH', key, string.format('%016d', NOW + INPUT.ttl) .. ARGV[3])
outlive(key, math.ceil(INPUT.ttl / 1000))
redis.call('PUBLISH', key, '')
return 1
