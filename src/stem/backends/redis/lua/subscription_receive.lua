-- needs: call
-- Subscription.receive, one step: read the next `stretch` messages after a number; return those that have not expired, oldest
-- first.
-- INPUT {channel, seen, limit, stretch}
-- Reply: the number from which to continue; 1 if there may be more messages, else 0; then the messages.
local key, reply, seen, looked = PREFIX .. 'channel:' .. INPUT.channel, { '', 0 }, INPUT.seen, 0
local last = INPUT.limit + 2
repeat
  local posts = redis.call('XRANGE', key, string.format('%d-0', seen + 1), '+', 'COUNT', 100)
  for _, posted in ipairs(posts) do
    if #reply < last then
      seen = tonumber(posted[1]:match('^%d+'))
      if tonumber(posted[2][2]) > NOW then
        reply[#reply + 1] = posted[2][4]
      end
    end
  end
  looked = looked + #posts
until #posts == 0 or #reply >= last or looked >= INPUT.stretch
reply[1] = string.format('%d', seen)
reply[2] = looked >= INPUT.stretch and 1 or 0
return reply
