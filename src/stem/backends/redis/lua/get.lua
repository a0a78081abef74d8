-- needs: call tasks
-- Results.get: records by id, of those that there are and that retention has not outlived.
-- INPUT the ids
-- Reply: the packed tasks, in the same order, false for none.
local reply = fetch('t:', INPUT)
for i = 1, #reply do
  if reply[i] and is_outlived(thaw(reply[i])) then
    reply[i] = false
  end
end
return reply
