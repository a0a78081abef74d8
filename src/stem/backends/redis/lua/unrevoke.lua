-- needs: call
-- Revokes.prune, one step: drop exactly the expired.
-- INPUT {limit}
-- Reply: how many went.
local ids = redis.call('ZRANGEBYSCORE', PREFIX .. 'revokes:expiring', '-inf', NOW, 'LIMIT', 0, INPUT.limit)
if #ids > 0 then
  spread(ids, 'HDEL', PREFIX .. 'revokes')
  spread(ids, 'ZREM', PREFIX .. 'revokes:versions')
  spread(ids, 'ZREM', PREFIX .. 'revokes:expiring')
end
return #ids
