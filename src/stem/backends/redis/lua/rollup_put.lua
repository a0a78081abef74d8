-- needs: call
-- Rollups.put: replace the rows of the same minute and key; a minute expires with the retention of events.
-- INPUT {kept in milliseconds, cells = {{minute, digest, body as JSON}, …}}
local index = PREFIX .. 'rollups'
local minutes = {}
for _, cell in ipairs(INPUT.cells) do
  local minute, digest, body = unpack(cell)
  local name = string.format('%d', minute)
  redis.call('HSET', index .. ':' .. name, digest, body)
  minutes[name] = minute
end
for name, minute in pairs(minutes) do
  local last = math.ceil(minute / 1000) + INPUT.kept
  redis.call('ZADD', index, minute, name)
  redis.call('PEXPIREAT', index .. ':' .. name, string.format('%d', last))
  outlive(index, math.max(1, last - math.floor(NOW / 1000)))
end
return #INPUT.cells
