-- The beginning of every script: its input, and the clock, which is the server's.
-- KEYS[1] `stem:{namespace}:`, which begins every key, so that a namespace stays in one slot of a cluster.
-- ARGV[1] the input, packed. ARGV[2] the retention, packed: {results = milliseconds, events = count}.
-- ARGV[3] and on: further input, which the head of the script describes.
-- All moments and durations are whole microseconds, unless a name says otherwise.
local PREFIX = KEYS[1]
local INPUT = cmsgpack.unpack(ARGV[1])
local RETENTION = cmsgpack.unpack(ARGV[2])
local clock = redis.call('TIME')
local NOW = clock[1] * 1000000 + clock[2]

-- A command over a list too long for Lua's stack, in slices. `key` may be absent. Returns the sum of the replies.
local SLICE = 4000
local function spread(list, command, key)
  local sum = 0
  for first = 1, #list, SLICE do
    local last = math.min(first + SLICE - 1, #list)
    local reply
    if key then
      reply = redis.call(command, key, unpack(list, first, last))
    else
      reply = redis.call(command, unpack(list, first, last))
    end
    sum = sum + (tonumber(reply) or 0)
  end
  return sum
end

-- The values of `kind`:id for each id, false where there is none; and their keys.
local function fetch(kind, ids)
  local keys, values, prefix = {}, {}, PREFIX .. kind
  for i = 1, #ids do
    keys[i] = prefix .. ids[i]
  end
  if #keys > 0 and #keys <= SLICE then
    return redis.call('MGET', unpack(keys)), keys
  end
  for first = 1, #keys, SLICE do
    for _, value in ipairs(redis.call('MGET', unpack(keys, first, math.min(first + SLICE - 1, #keys)))) do
      values[#values + 1] = value
    end
  end
  return values, keys
end

-- The next of a series that only grows; written with flush_numbers.
local numbers = {}
local function last_number(what)
  if not numbers[what] then
    numbers[what] = tonumber(redis.call('HGET', PREFIX .. 'numbers', what) or 0)
  end
  return numbers[what]
end

local function number(what)
  numbers[what] = last_number(what) + 1
  return numbers[what]
end

local function flush_numbers()
  local fields = {}
  for what, value in pairs(numbers) do
    fields[#fields + 1] = what
    fields[#fields + 1] = value
  end
  if #fields > 0 then
    redis.call('HSET', PREFIX .. 'numbers', unpack(fields))
  end
end

-- Let the key live at least this many milliseconds from now.
local function outlive(key, milliseconds)
  if redis.call('PTTL', key) < milliseconds then
    redis.call('PEXPIRE', key, milliseconds)
  end
end
