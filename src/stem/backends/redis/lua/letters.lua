-- needs: call tasks space letters
-- DeadLetters.get and page, one stretch. INPUT as shared/letters.lua says.
-- Reply: the sequence number to go on below, '' at the end; then packed task, body, packed task, body, …
local found, last = matching()
local ids, reply = {}, { last == '' and '' or string.format('%d', last) }
for i, task in ipairs(found) do
  ids[i] = task[ID]
end
for i, body in ipairs(fetch('b:', ids)) do
  reply[#reply + 1] = cmsgpack.pack(found[i])
  reply[#reply + 1] = body or ''
end
return reply
