-- needs: call tasks entry log endings awaited write_batch
-- Broker.start: note that these attempts run. Twice is a no-op.
-- INPUT {leases = {{id, fence}, …}, worker, ago = {how long each has run, …}}
-- Reply, packed: the positions of the refused leases.
local ids, refused = {}, {}
for i, lease in ipairs(INPUT.leases) do
  ids[i] = lease[1]
end
read(ids)
for i, lease in ipairs(INPUT.leases) do
  local task = held(lease[1], lease[2])
  if not task then
    refused[#refused + 1] = i
  elseif task[STATE] ~= 'running' then
    start(task, INPUT.worker, NOW - INPUT.ago[i])
  end
end
commit()
return cmsgpack.pack(refused)
