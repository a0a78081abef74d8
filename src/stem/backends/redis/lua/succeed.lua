-- needs: call tasks log endings closing
-- Broker.settle for a batch of successes that have neither meta nor follow-ups.
-- INPUT {worker, ids (distinct), fences, runs, payloads as JSON}; the last four are in the same order.
-- Reply, packed: the positions of the refused endings; or 0, with nothing written, if others may wait for a task: then
--   succeed_awaited.lua has to do it, which has more to load.
local worker, ids, fences, runs, payloads = unpack(INPUT)
local refused = {}
local packs, keys = fetch('t:', ids)
for i = 1, #packs do
  if packs[i] and packs[i]:byte(WIDTH_AT) == LINKED_WIDTH then
    return 0
  end
end
for i, packed in ipairs(packs) do
  if not (packed and succeed(ids[i], keys[i], packed, fences[i], runs[i], payloads[i], worker)) then
    refused[#refused + 1] = i
  end
end
write_endings()
close_log()
flush_numbers()
sweep(2 * #ids)
return cmsgpack.pack(refused)
