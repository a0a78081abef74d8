-- Drop up to `limit` marks that have expired. Returns how many went.
local function drop_expired_marks(limit)
  local ids = redis.call('ZRANGEBYSCORE', PREFIX .. 'revokes:expiring', '-inf', NOW, 'LIMIT', 0, limit)
  if #ids > 0 then
    spread(ids, 'HDEL', PREFIX .. 'revokes')
    spread(ids, 'ZREM', PREFIX .. 'revokes:versions')
    spread(ids, 'ZREM', PREFIX .. 'revokes:expiring')
  end
  return #ids
end
