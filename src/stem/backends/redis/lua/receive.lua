-- needs: call
-- Mail.receive: take messages out of a box, oldest first, each to one receiver only; the expired are dropped.
-- INPUT {box, limit}
-- Reply: the messages.
local key, messages = PREFIX .. 'box:' .. INPUT.box, {}
while #messages < INPUT.limit do
  local posted = redis.call('LPOP', key)
  if not posted then
    break
  end
  if tonumber(posted:sub(1, 16)) > NOW then
    messages[#messages + 1] = posted:sub(17)
  end
end
return messages
