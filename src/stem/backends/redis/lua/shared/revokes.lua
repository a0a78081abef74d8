-- Of a packed mark: whether it has not expired, and its version. What cannot be read counts as live: the caller passes over it.
local function read_mark(packed)
  local is_read, mark = pcall(cmsgpack.unpack, packed)
  if not is_read or type(mark) ~= 'table' then
    return true, nil
  end
  return type(mark.expires) ~= 'number' or mark.expires > NOW, mark.version
end

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
