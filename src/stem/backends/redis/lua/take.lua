-- needs: call
-- Limiter.take: take one token from each bucket, in order; core/decisions/ratelimit.py explains how and why.
-- INPUT {{key, pace: how long a token takes to come, burst}, …}
-- Reply: for each bucket 0 if a token was granted, else how long to wait.
local HORIZON, GRACE, KEPT = 60000000, 1, 0.5

local levels, bursts, touched = {}, {}, {} -- by key; the keys that have changed

local function read()
  local keys = {}
  for _, bucket in ipairs(INPUT) do
    if levels[bucket[1]] == nil then
      levels[bucket[1]] = false
      keys[#keys + 1] = bucket[1]
    end
  end
  for i, packed in ipairs(fetch('bucket:', keys)) do
    levels[keys[i]] = packed and cmsgpack.unpack(packed)
  end
end

local function write(key, burst, tokens, promised, pace)
  levels[key] = { tokens, promised, pace, NOW }
  if not bursts[key] then
    touched[#touched + 1] = key
  end
  bursts[key] = burst
end

-- What is in the bucket now, and for how long it is promised. Promises made at another pace are void.
local function now_in(level, pace, burst)
  if not level then
    return burst, 0
  end
  local tokens, promised, old_pace, updated = unpack(level)
  if old_pace ~= pace then
    promised = 0
  end
  local passed = NOW - updated
  local most = promised > 0 and burst + KEPT or burst
  return math.min(most, tokens + passed / pace), math.max(0, promised - passed)
end

local function take(place, key, pace, burst)
  local level = levels[key]
  if level and level[4] > NOW then -- a clock was set back: go on from here, or nothing would come until it has caught up
    write(key, burst, level[1], level[2], level[3])
  end
  local tokens, promised = now_in(levels[key], pace, burst)
  local missing = (1 - tokens) * pace
  if missing <= GRACE then
    write(key, burst, tokens - 1, promised, pace)
    return 0
  end
  local wait, horizon = math.max(promised, missing), math.max(HORIZON, 2 * pace)
  if wait > horizon then
    -- The golden ratio spreads evenly; Lua's random numbers are the same in every call.
    local chance = (NOW % 1000000 + place) * 0.6180339887498949 % 1
    return math.ceil(horizon * (1 + chance) / 2)
  end
  write(key, burst, tokens, wait + pace, pace)
  return math.ceil(wait)
end

read()
local answers = {}
for i, bucket in ipairs(INPUT) do
  answers[i] = take(i, unpack(bucket))
end
for _, key in ipairs(touched) do
  local tokens, promised, pace = unpack(levels[key])
  local lasts = math.max(promised, (bursts[key] - tokens) * pace)
  redis.call('SET', PREFIX .. 'bucket:' .. key, cmsgpack.pack(levels[key]), 'PX', math.max(1, math.ceil(lasts / 1000)))
end
return answers
