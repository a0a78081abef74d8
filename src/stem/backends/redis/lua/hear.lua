-- needs: call
-- Subscription.receive: what was published after a number and has not expired, oldest first.
-- INPUT {channel, seen, limit}
-- Reply: the number to go on from, then the messages.
local key, reply, seen = PREFIX .. 'channel:' .. INPUT.channel, { '' }, INPUT.seen
repeat
  local stretch = redis.call('XRANGE', key, string.format('%d-0', seen + 1), '+', 'COUNT', INPUT.limit)
  for _, posted in ipairs(stretch) do
    if #reply <= INPUT.limit then
      seen = tonumber(posted[1]:match('^%d+'))
      if tonumber(posted[2][2]) > NOW then
        reply[#reply + 1] = posted[2][4]
      end
    end
  end
until #stretch == 0 or #reply > INPUT.limit
reply[1] = string.format('%d', seen)
return reply
