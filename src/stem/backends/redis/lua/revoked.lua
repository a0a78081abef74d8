-- needs: call
-- Revokes.get and since: marks that have not expired, by task or by version.
-- INPUT {ids} or {after, limit}
-- Reply: the packed marks.
local marks = {}

local function add(ids)
  if #ids == 0 then
    return
  end
  for _, packed in ipairs(redis.call('HMGET', PREFIX .. 'revokes', unpack(ids))) do
    local mark = packed and cmsgpack.unpack(packed)
    if mark and not (mark.expires and mark.expires <= NOW) then
      marks[#marks + 1] = packed
    end
  end
end

if INPUT.ids then
  for first = 1, #INPUT.ids, SLICE do
    add({ unpack(INPUT.ids, first, math.min(first + SLICE - 1, #INPUT.ids)) })
  end
  return marks
end
local skipped = 0
repeat
  local ids = redis.call(
    'ZRANGEBYSCORE', PREFIX .. 'revokes:versions', string.format('(%d', INPUT.after), '+inf',
    'LIMIT', skipped, math.min(INPUT.limit, 1000)
  )
  add(ids)
  skipped = skipped + #ids
until #ids == 0 or #marks >= INPUT.limit
return { unpack(marks, 1, math.min(#marks, INPUT.limit, SLICE)) }
