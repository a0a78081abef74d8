-- needs: call revokes
-- Revokes.get: return the records of these tasks that have not expired.
-- INPUT {task ids}
-- Reply: the packed records.
local records = {}
for first = 1, #INPUT, SLICE do
  local ids = { unpack(INPUT, first, math.min(first + SLICE - 1, #INPUT)) }
  for _, packed in ipairs(redis.call('HMGET', PREFIX .. 'revokes', unpack(ids))) do
    if packed and read_revoke(packed) then
      records[#records + 1] = packed
    end
  end
end
return records
