-- needs: call
-- Rollups.read, one step: return the rows of the next `stretch` minutes, from `since` on and before `until`.
-- INPUT {since, until, stretch}
-- Reply: 1 if there is more, else 0; the minute from which to continue; then the bodies.
local index = PREFIX .. 'rollups'
local found = redis.call(
  'ZRANGEBYSCORE', index, string.format('%d', INPUT.since), string.format('(%d', INPUT['until']),
  'LIMIT', 0, INPUT.stretch + 1
)
local reply = { #found > INPUT.stretch and 1 or 0, tonumber(found[INPUT.stretch + 1] or 0) }
for i = 1, math.min(#found, INPUT.stretch) do
  for _, body in ipairs(redis.call('HVALS', index .. ':' .. found[i])) do
    reply[#reply + 1] = body
  end
end
return reply
