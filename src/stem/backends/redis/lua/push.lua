-- needs: call tasks entry log endings awaited write_batch prerequisites pushing
-- Broker.push: store all tasks or none. A known id is left alone; for a held unique key the holder's id is returned.
-- INPUT {the ids, checks, awaiting}. ARGV[3] the pushes in the same order, a packed list. shared/pushing.lua describes all of it.
-- Reply, packed: for each push true if it was created, false if its id was known, the holder's id, or a list with the id that it
--   superseded. Or what is missing, with nothing stored: {prerequisite = id} or {join = id}.
local ids, checks
ids, checks, awaiting = unpack(INPUT)
local offset, receipts = first_item(ARGV[3]), {}
read(ids)
local refusal = missing(checks)
if refusal then
  return cmsgpack.pack(refusal)
end
for i = 1, #ids do
  receipts[i], offset = push(ARGV[3], offset)
end
carry_on()
commit()
return cmsgpack.pack(receipts)
