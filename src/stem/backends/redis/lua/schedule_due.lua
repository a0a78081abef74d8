-- needs: call
-- Schedules.due, next_due_at and wait: read a stretch of the entries that have a due time, earliest first.
-- INPUT {skip, limit, is_due: only those whose time has come}
-- Reply: {the number of the last change, {id, microseconds until it is due (0 if it is), what is stored or ''}, …}
local till = INPUT.is_due and string.format('%d', NOW) or '+inf'
local found = redis.call(
  'ZRANGEBYSCORE', PREFIX .. 'schedules:due', '-inf', till, 'WITHSCORES', 'LIMIT', INPUT.skip, INPUT.limit
)
local reply, ids = { last_number('schedule') }, {}
for i = 1, #found, 2 do
  ids[#ids + 1] = found[i]
end
if #ids > 0 then
  for i, stored in ipairs(redis.call('HMGET', PREFIX .. 'schedules', unpack(ids))) do
    reply[i + 1] = { ids[i], math.max(0, tonumber(found[2 * i]) - NOW), stored or '' }
  end
end
return reply
