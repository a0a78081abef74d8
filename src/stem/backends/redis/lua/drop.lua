-- needs: call tasks entry log endings awaited write_batch letters
-- DeadLetters.purge, one stretch: delete matching letters for good; their records stay for as long as retention says.
-- INPUT as in shared/letters.lua
-- Reply, packed: {the sequence number below which to continue, '' at the end; {ids}}
local found, last = matching()
local ids = {}
for i, task in ipairs(found) do
  ids[i] = task[ID]
  remove_letter(task)
  retire(task)
end
commit()
return cmsgpack.pack({ last, ids })
