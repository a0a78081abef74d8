-- needs: call tasks
-- Results.get: return records by id, except those past their retention.
-- INPUT the ids
-- Reply: the packed tasks, in the same order; false for an id without a record.
local reply = fetch('t:', INPUT)
for i = 1, #reply do
  local task = reply[i] and readable(reply[i])
  if not task or is_outlived(task) then
    reply[i] = false
  end
end
return reply
