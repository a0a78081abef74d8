-- needs: call
-- Mail.publish: post a message for all that have subscribed by now.
-- INPUT {channel, ttl}. ARGV[3] the message.
local key = PREFIX .. 'channel:' .. INPUT.channel
if INPUT.ttl <= 0 then
  return 0
end
for _, posted in ipairs(redis.call('XRANGE', key, '-', '+', 'COUNT', 100)) do
  if tonumber(posted[2][2]) > NOW then
    break
  end
  redis.call('XDEL', key, posted[1])
end
redis.call('XADD', key, string.format('%d-0', number('mail')), 'until', NOW + INPUT.ttl, 'message', ARGV[3])
flush_numbers()
outlive(key, math.ceil(INPUT.ttl / 1000))
redis.call('PUBLISH', key, '')
return 1
