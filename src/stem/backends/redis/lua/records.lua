-- needs: call tasks
-- Results.page, one stretch of the index: return records, newest enqueued first.
-- INPUT {before?, limit, stretch, state?, queue?, name?, since?, till?, meta? = key → JSON}
-- Reply: the sequence number below which to continue, '' at the end; then the packed tasks.
local function has_meta(meta)
  for key, value in pairs(INPUT.meta or {}) do
    if meta[key] ~= value then
      return false
    end
  end
  return true
end

local below = INPUT.before and string.format('(%d', INPUT.before) or '+inf'
local range = redis.call(
  'ZREVRANGEBYSCORE', PREFIX .. 'index', below, '-inf', 'WITHSCORES', 'LIMIT', 0, INPUT.stretch
)
local ids, reply, last = {}, { '' }, ''
for i = 1, #range, 2 do
  ids[#ids + 1] = range[i]
end
for i, packed in ipairs(fetch('t:', ids)) do
  local task = packed and readable(packed)
  last = range[2 * i]
  if
    task
    and (not INPUT.state or task[STATE] == INPUT.state)
    and (not INPUT.queue or task[QUEUE] == INPUT.queue)
    and (not INPUT.name or task[NAME] == INPUT.name)
    and (not INPUT.since or task[ENQUEUED] >= INPUT.since)
    and (not INPUT.till or task[ENQUEUED] < INPUT.till)
    and has_meta(task[META] or {})
    and not is_outlived(task)
  then
    reply[#reply + 1] = packed
    if #reply > INPUT.limit then
      break
    end
  end
end
if #ids == INPUT.stretch or #reply > INPUT.limit then
  reply[1] = last
end
return reply
