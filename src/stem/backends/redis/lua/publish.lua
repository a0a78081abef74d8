-- needs: call
-- Mail.publish: add a message to a channel for its current subscribers.
-- INPUT {channel, ttl}. ARGV[3] the message.
local key = PREFIX .. 'channel:' .. INPUT.channel
if INPUT.ttl <= 0 then
  return 0
end
-- Each post looks at the next few, round and round, and drops the expired: they may lie behind one that lives for long.
local swept = PREFIX .. 'swept:' .. INPUT.channel
local posts = redis.call('XRANGE', key, string.format('%d-0', (redis.call('GET', swept) or 0) + 1), '+', 'COUNT', 20)
for _, posted in ipairs(posts) do
  if tonumber(posted[2][2]) <= NOW then
    redis.call('XDEL', key, posted[1])
  end
end
redis.call('SET', swept, posts[20] and posts[20][1]:match('^%d+') or 0, 'KEEPTTL')
redis.call('XADD', key, string.format('%d-0', number('mail')), 'until', NOW + INPUT.ttl, 'message', ARGV[3])
flush_numbers()
outlive(key, math.ceil(INPUT.ttl / 1000))
outlive(swept, math.ceil(INPUT.ttl / 1000))
redis.call('PUBLISH', key, '')
return 1
