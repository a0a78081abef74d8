-- needs: call tasks entry log endings awaited write_batch letters
-- DeadLetters.get and page, one stretch: return matching letters.
-- INPUT as in shared/letters.lua
-- Reply: the sequence number below which to continue, '' at the end; then packed task, body, packed task, body, …
local found, last = matching()
local reply = { last == '' and '' or string.format('%d', last) }
for i, body in ipairs(bodies_of(found)) do
  reply[#reply + 1] = freeze(found[i])
  reply[#reply + 1] = body
end
return reply
