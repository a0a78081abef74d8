-- needs: call tasks entry log endings awaited closing write_batch prerequisites
-- Broker.settle for a batch of successes, as succeed.lua, where others may wait for a task.
-- INPUT and reply as those of succeed.lua, except 0.
local worker, ids, fences, runs, payloads = unpack(INPUT)
local refused = {}
local packs, keys = fetch('t:', ids)
for i, packed in ipairs(packs) do
  local kept = packed and succeed(ids[i], keys[i], packed, fences[i], runs[i], payloads[i], worker, closed_links)
  tasks[ids[i]] = kept or packed
  if not kept then
    refused[#refused + 1] = i
  end
end
carry_on()
commit()
sweep(2 * #ids)
return cmsgpack.pack(refused)
