-- needs: call tasks entry log endings space letters
-- DeadLetters.get and page, one stretch. INPUT as shared/letters.lua says.
-- Reply: the sequence number to go on below, '' at the end; then packed task, body, packed task, body, …
local found, last = matching()
local reply = { last == '' and '' or string.format('%d', last) }
for i, body in ipairs(bodies_of(found)) do
  reply[#reply + 1] = freeze(found[i])
  reply[#reply + 1] = body
end
return reply
