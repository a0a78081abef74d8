-- needs: call tasks entry log endings awaited write_batch
-- Broker.renew: let each lease end later, never earlier.
-- INPUT {leases = {{id, fence}, …}, lease}
-- Reply, packed: the positions of the refused leases.
local ids, refused, ends = {}, {}, {}
for i, lease in ipairs(INPUT.leases) do
  ids[i] = lease[1]
end
read(ids)
for i, lease in ipairs(INPUT.leases) do
  local task = held(lease[1], lease[2])
  if task then
    ends[#ends + 1] = NOW + math.max(INPUT.lease, task[VISIBLE] or 0)
    ends[#ends + 1] = task[ID]
  else
    refused[#refused + 1] = i
  end
end
for first = 1, #ends, SLICE do
  redis.call('ZADD', PREFIX .. 'leases', 'GT', unpack(ends, first, math.min(first + SLICE - 1, #ends)))
end
return cmsgpack.pack(refused)
