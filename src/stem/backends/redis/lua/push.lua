-- needs: call tasks entry log endings space
-- Broker.push: store all or none; a known id is left alone; a held unique key answers with its holder.
-- INPUT the ids. ARGV[3] the pushes in the same order, a packed list of {options or false, id, name, queue, priority,
--   meta, unique key if it is held until the end, body unless it is large}; options {delay, due, lifetime, expires, visible,
--   unique key, hold, large body}
-- Reply, packed: one a push: true for created, false for known, or the holder's id.
local offset, receipts = first_item(ARGV[3]), {}
read(INPUT)
for i = 1, #INPUT do
  receipts[i], offset = push(ARGV[3], offset)
end
commit()
return cmsgpack.pack(receipts)
