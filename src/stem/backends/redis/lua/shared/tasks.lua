-- A task is an array, packed as it stands: docs/redis-keys.md says what each field holds. `false` stands for none.
-- It holds its own id, though its key does too: Lua finds a string by a hash of every nth byte, and packed tasks that
-- differ in a few digits only would all fall together.
local FORMAT, ID, NAME, QUEUE, PRIORITY, SEQ, STATE, ATTEMPT, FENCE, ENQUEUED, UPDATED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
local PAYLOAD, ERROR, META, WORKER, STARTED, FINISHED, BEAT = 12, 13, 14, 15, 16, 17, 18
local VISIBLE, DUE, EXPIRES, DEATHS, HELD, UNIQUE, LETTER, BODY = 19, 20, 21, 22, 23, 24, 25, 26
local L_SEQ, L_REASON, L_META = 1, 2, 3 -- of a letter
local WIDTH = 26
local UNCHANGED, CHANGED = 0, 1 -- what stands for the format of a task in hand; what is written is 1, the format there is
local TERMINAL = { succeeded = true, failed = true, cancelled = true }

-- The task that is packed in the string, from its second field on: past the array's head and the format.
-- Read as many values, not as one: tables that grow field by field are what costs most here.
local function thaw(packed, offset)
  local task = { cmsgpack.unpack_limit(packed, WIDTH - 1, offset or 4) }
  local behind = task[FORMAT]
  task[FORMAT] = UNCHANGED
  return task, behind
end

-- Where the items of a packed list begin.
local function first_item(packed)
  local head = packed:byte(1)
  return head == 0xdd and 5 or head == 0xdc and 3 or 1
end
