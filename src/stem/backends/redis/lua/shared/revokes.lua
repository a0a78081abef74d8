-- Tell whether a packed record has not expired, and its version. An unreadable record counts as live: the caller skips it.
local function read_revoke(packed)
  local is_read, record = pcall(cmsgpack.unpack, packed)
  if not is_read or type(record) ~= 'table' then
    return true, nil
  end
  return type(record.expires) ~= 'number' or record.expires > NOW, record.version
end

-- Drop up to `limit` records that have expired. Returns how many went.
local function drop_expired_revokes(limit)
  local ids = redis.call('ZRANGEBYSCORE', PREFIX .. 'revokes:expiring', '-inf', NOW, 'LIMIT', 0, limit)
  if #ids > 0 then
    spread(ids, 'HDEL', PREFIX .. 'revokes')
    spread(ids, 'ZREM', PREFIX .. 'revokes:versions')
    spread(ids, 'ZREM', PREFIX .. 'revokes:expiring')
  end
  return #ids
end
