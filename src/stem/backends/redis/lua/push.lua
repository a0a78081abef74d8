-- needs: call tasks entry log endings write_batch
-- Broker.push: store all tasks or none. A known id is left alone; for a held unique key the holder's id is returned.
-- INPUT the ids. ARGV[3] the pushes in the same order, a packed list of {options or false, id, name, queue, priority,
--   meta, unique key if it is held until the end, body unless it is large}; options {delay, due, lifetime, expires, visible,
--   unique key, hold, large body}
-- Reply, packed: for each push true if it was created, false if its id was known, or the holder's id.
local offset, receipts = first_item(ARGV[3]), {}
read(INPUT)
for i = 1, #INPUT do
  receipts[i], offset = push(ARGV[3], offset)
end
commit()
return cmsgpack.pack(receipts)
