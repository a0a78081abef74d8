-- needs: call revokes
-- Revokes.put: store all records or none, in order; a second record of a task replaces the first, with a new version.
-- INPUT {{task, reason, requester, terminate, signal?, lifetime?}, …}
-- Reply: the packed records, in order.
local records = {}
drop_expired_revokes(99 + #INPUT) -- more than it brings, so that they do not pile up where nobody prunes
for i, record in ipairs(INPUT) do
  local id = record.task
  record.version, record.created = number('revoke'), NOW
  record.expires, record.lifetime = record.lifetime and NOW + record.lifetime, nil
  records[i] = cmsgpack.pack(record)
  redis.call('HSET', PREFIX .. 'revokes', id, records[i])
  redis.call('ZADD', PREFIX .. 'revokes:versions', record.version, id)
  if record.expires then
    redis.call('ZADD', PREFIX .. 'revokes:expiring', record.expires, id)
  else
    redis.call('ZREM', PREFIX .. 'revokes:expiring', id)
  end
end
flush_numbers()
return records
