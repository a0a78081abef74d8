-- needs: call tasks
-- Results.get: return records by id, except those past their retention, unless they are asked for.
-- INPUT {ids, past_retention}
-- Reply: the packed tasks, in the same order; false for an id without a record.
local reply = fetch('t:', INPUT[1])
for i = 1, #reply do
  local task = reply[i] and readable(reply[i])
  if not task or not INPUT[2] and is_outlived(task) then
    reply[i] = false
  end
end
return reply
