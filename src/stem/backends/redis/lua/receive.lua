-- needs: call
-- Mail.receive, one step: take up to `stretch` messages out of a box, oldest first, each for one receiver only; drop the
-- expired ones.
-- INPUT {box, limit, stretch}
-- Reply: 1 if there may be more messages, else 0; then the messages.
local key, reply = PREFIX .. 'box:' .. INPUT.box, { 1 }
for _ = 1, INPUT.stretch do
  local posted = #reply <= INPUT.limit and redis.call('LPOP', key)
  if not posted then
    reply[1] = 0
    break
  end
  if tonumber(posted:sub(1, 16)) > NOW then
    reply[#reply + 1] = posted:sub(17)
  end
end
return reply
