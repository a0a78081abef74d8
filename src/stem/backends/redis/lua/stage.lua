-- needs: call
-- Staging.stage: store chunks of pushes under their part, where only a promotion reads them.
-- INPUT {job, part, rows, lifetime in milliseconds}. ARGV[3] and on: the chunks, as stage_promote.lua reads them.
local job = PREFIX .. 'stage:' .. INPUT[1]
local list = job .. ':' .. INPUT[2]
for i = 3, #ARGV do
  redis.call('RPUSH', list, ARGV[i])
end
redis.call('HINCRBY', job, INPUT[2], INPUT[3])
redis.call('PEXPIRE', list, INPUT[4])
redis.call('PEXPIRE', job, INPUT[4])
return 1
