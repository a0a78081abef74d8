-- needs: call revokes
-- Revokes.put: all or none, in order; a second mark for a task replaces the first, with a new version.
-- INPUT {{task, reason, requester, terminate, signal?, lifetime?}, …}
-- Reply: the packed marks, in order.
local marks = {}
drop_expired_marks(99 + #INPUT) -- more than it brings, so that they do not pile up where nobody prunes
for i, mark in ipairs(INPUT) do
  local id = mark.task
  mark.version, mark.created = number('revoke'), NOW
  mark.expires, mark.lifetime = mark.lifetime and NOW + mark.lifetime, nil
  marks[i] = cmsgpack.pack(mark)
  redis.call('HSET', PREFIX .. 'revokes', id, marks[i])
  redis.call('ZADD', PREFIX .. 'revokes:versions', mark.version, id)
  if mark.expires then
    redis.call('ZADD', PREFIX .. 'revokes:expiring', mark.expires, id)
  else
    redis.call('ZREM', PREFIX .. 'revokes:expiring', id)
  end
end
flush_numbers()
return marks
