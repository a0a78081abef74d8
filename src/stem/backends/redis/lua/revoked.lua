-- needs: call revokes
-- Revokes.get: the marks of these tasks that have not expired.
-- INPUT {task ids}
-- Reply: the packed marks.
local marks = {}
for first = 1, #INPUT, SLICE do
  local ids = { unpack(INPUT, first, math.min(first + SLICE - 1, #INPUT)) }
  for _, packed in ipairs(redis.call('HMGET', PREFIX .. 'revokes', unpack(ids))) do
    if packed and read_mark(packed) then
      marks[#marks + 1] = packed
    end
  end
end
return marks
