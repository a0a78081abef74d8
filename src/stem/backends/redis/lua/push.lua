-- needs: call space
-- Broker.push: store all or none; a known id is left alone; a held unique key answers with its holder.
-- INPUT pushes, in order: {id, name, queue, prio, body, meta?, visible?, delay? | due?, lifetime? | expires?, unique?, hold?}
-- Reply, packed: one a push: true for created, false for known, or the holder's id.
local ids, receipts = {}, {}
for i, pushed in ipairs(INPUT) do
  ids[i] = pushed.id
end
read(ids)
for i, pushed in ipairs(INPUT) do
  receipts[i] = push(pushed)
end
commit()
return cmsgpack.pack(receipts)
