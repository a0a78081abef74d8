-- needs: call space letters
-- DeadLetters.get and page, one stretch. INPUT as shared/letters.lua says.
-- Reply: the sequence number to go on below, '' at the end; then id, packed task, body, id, packed task, body, …
local found, last = matching()
local ids, reply = {}, { tostring(last) }
if last ~= '' then
  reply[1] = string.format('%d', last)
end
for i, task in ipairs(found) do
  ids[i] = task.id
end
local bodies_found = fetch('b:', ids)
for i, task in ipairs(found) do
  task.id = nil
  reply[#reply + 1] = ids[i]
  reply[#reply + 1] = cmsgpack.pack(task)
  reply[#reply + 1] = bodies_found[i] or ''
end
return reply
