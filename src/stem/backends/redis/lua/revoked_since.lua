-- needs: call revokes
-- Revokes.since, one step: read the next `stretch` records after a version; return up to `limit` that have not expired.
-- INPUT {after, limit, stretch}
-- Reply: the version from which to continue, empty at the end; then the packed records.
local found = redis.call(
  'ZRANGEBYSCORE', PREFIX .. 'revokes:versions', string.format('(%d', INPUT.after), '+inf',
  'WITHSCORES', 'LIMIT', 0, INPUT.stretch
)
local reply, ids, last = { '' }, {}, nil
for i = 1, #found, 2 do
  ids[#ids + 1] = found[i]
end
if #ids == 0 then
  return reply
end
for i, packed in ipairs(redis.call('HMGET', PREFIX .. 'revokes', unpack(ids))) do
  if #reply > INPUT.limit then
    break
  end
  last = found[2 * i]
  if packed then
    local is_live, version = read_revoke(packed)
    if is_live and version == tonumber(last) then -- else somebody has written it by hand, and readers go on from the version
      reply[#reply + 1] = packed
    end
  end
end
if #reply > INPUT.limit or #ids == INPUT.stretch then
  reply[1] = string.format('%d', last)
end
return reply
