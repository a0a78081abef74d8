-- needs: call tasks entry log endings space letters
-- DeadLetters.purge, one stretch: drop matching letters for good; the record stays for as long as retention says.
-- INPUT as shared/letters.lua says
-- Reply, packed: {the sequence number to go on below or '', {ids}}
local found, last = matching()
local ids = {}
for i, task in ipairs(found) do
  ids[i] = task[ID]
  unbury(task)
  retire(task)
end
commit()
return cmsgpack.pack({ last, ids })
