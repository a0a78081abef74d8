-- needs: call
-- TaskLogs.append: add lines to the streams of their tasks, of which the newest `most` stay; a stream expires `kept`
-- milliseconds after its last line.
-- INPUT {kept, most, lines = {{task id, line as JSON}, …}}
-- Reply: how many there were.
local streams = {}
for _, line in ipairs(INPUT.lines) do
  local key = PREFIX .. 'log:' .. line[1]
  redis.call('XADD', key, 'MAXLEN', INPUT.most, '*', 'l', line[2])
  streams[key] = true
end
for key in pairs(streams) do
  redis.call('PEXPIRE', key, INPUT.kept)
end
return #INPUT.lines
