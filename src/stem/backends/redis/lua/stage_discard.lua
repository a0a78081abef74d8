-- needs: call
-- Staging.discard: delete what the job has staged.
-- INPUT the job
local job = PREFIX .. 'stage:' .. INPUT
for _, part in ipairs(redis.call('HKEYS', job)) do
  redis.call('UNLINK', job .. ':' .. part)
end
redis.call('UNLINK', job)
return 1
