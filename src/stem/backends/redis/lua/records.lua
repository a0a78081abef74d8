-- needs: call
-- Results.page, one stretch of the index: newest enqueued first.
-- INPUT {before?, limit, stretch, state?, queue?, name?, since?, till?}
-- Reply: the sequence number to go on below, '' at the end; then id, packed task, id, packed task, …
local below = INPUT.before and string.format('(%d', INPUT.before) or '+inf'
local range = redis.call(
  'ZREVRANGEBYSCORE', PREFIX .. 'index', below, '-inf', 'WITHSCORES', 'LIMIT', 0, INPUT.stretch
)
local ids, reply, last = {}, { '' }, ''
for i = 1, #range, 2 do
  ids[#ids + 1] = range[i]
end
for i, packed in ipairs(fetch('t:', ids)) do
  local task = packed and cmsgpack.unpack(packed)
  last = range[2 * i]
  if
    task
    and (not INPUT.state or task.state == INPUT.state)
    and (not INPUT.queue or task.queue == INPUT.queue)
    and (not INPUT.name or task.name == INPUT.name)
    and (not INPUT.since or task.enqueued >= INPUT.since)
    and (not INPUT.till or task.enqueued < INPUT.till)
  then
    reply[#reply + 1] = ids[i]
    reply[#reply + 1] = packed
    if #reply > 2 * INPUT.limit then
      break
    end
  end
end
if #ids == INPUT.stretch or #reply > 2 * INPUT.limit then
  reply[1] = last
end
return reply
