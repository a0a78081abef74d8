-- needs: call
-- Heartbeats.all: return the heartbeats that have not expired.
-- INPUT nothing
-- Reply, packed: {{age, heartbeat as JSON}, …}
local pulses = {}
local workers = redis.call('ZRANGEBYSCORE', PREFIX .. 'workers', string.format('(%d', NOW), '+inf')
for _, packed in ipairs(fetch('beat:', workers)) do
  -- Anything may be written there by hand; the caller gets the others.
  local is_packed, pulse = pcall(cmsgpack.unpack, packed or '')
  if is_packed and type(pulse) == 'table' and type(pulse[1]) == 'number' and type(pulse[2]) == 'string' then
    pulses[#pulses + 1] = { math.max(0, NOW - pulse[1]), pulse[2] }
  end
end
return cmsgpack.pack(pulses)
