-- needs: call
-- Heartbeats.all: those not forgotten.
-- INPUT nothing
-- Reply, packed: {{age, beat as JSON}, …}
local pulses = {}
local workers = redis.call('ZRANGEBYSCORE', PREFIX .. 'workers', string.format('(%d', NOW), '+inf')
for _, packed in ipairs(fetch('beat:', workers)) do
  if packed then
    local at, beat = unpack(cmsgpack.unpack(packed))
    pulses[#pulses + 1] = { math.max(0, NOW - at), beat }
  end
end
return cmsgpack.pack(pulses)
