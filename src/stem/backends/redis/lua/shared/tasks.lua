-- A task is a packed array; docs/redis-keys.md describes its fields. `false` means none, and so does a missing field at the
-- end. The fence always takes nine bytes, so that a claim can change the head and copy the rest unread.
-- The array also holds the task's id, which its key has as well: Lua finds a string by a hash of every nth byte, and packed
-- tasks that differ in a few digits only would all get the same hash.
local FORMAT, FENCE, HELD, STATE, EXPIRES, VISIBLE, ASIDE = 1, 2, 3, 4, 5, 6, 7
local ATTEMPT, ENQUEUED, UPDATED, WORKER, STARTED, FINISHED, BEAT, PAYLOAD, ERROR, SEQ = 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
local ID, NAME, QUEUE, PRIORITY, META, UNIQUE, BODY = 18, 19, 20, 21, 22, 23, 24
local DUE, DEATHS, LETTER = 25, 26, 27
local AWAITED, PENDING, ON_FAILURE, RELEASE_DELAY, ENDS, PASSES, EVENT, STEPS, SINCE = 28, 29, 30, 31, 32, 33, 34, 35, 36
local L_SEQ, L_REASON, L_META = 1, 2, 3 -- of a letter
local WIDTH, ENDED_WIDTH = 27, 22 -- of a task that may run again, and of one that will not
local LINKED_WIDTH = 36 -- of either, if one of the last fields is set: by this, scripts know tasks that need more than others
local HEAD, WIDTH_AT, FENCE_AT = 14, 3, 6 -- bytes before the state, the last of which says if it is held; where others begin
local NONE = 194 -- the byte that is a packed `false`
local UNCHANGED, CHANGED = 0, 1 -- what stands for the format of a task in hand; what is written is 1, the format there is
local TERMINAL = { succeeded = true, failed = true, cancelled = true }

-- All of a packed task before its state.
local function packed_head(width, fence, is_held)
  return struct.pack('>BHBBI8B', 0xdc, width, 1, 0xcf, fence, is_held and 0xc3 or 0xc2)
end

-- The task that is packed in the string, from its second field on: past the array's head and the format.
-- Read as many values, not as one: tables that grow field by field are what costs most here.
local function thaw(packed, offset, width)
  local task = { cmsgpack.unpack_limit(packed, (width or LINKED_WIDTH) - 1, offset or 4) }
  local behind = task[FORMAT]
  task[FORMAT] = UNCHANGED
  return task, behind
end

-- The task that is packed in the string; false if somebody has written there what is none.
local function readable(packed)
  local is_read, task = pcall(thaw, packed)
  return is_read
    and type(task[ID]) == 'string'
    and type(task[QUEUE]) == 'string'
    and type(task[FENCE]) == 'number'
    and type(task[ATTEMPT]) == 'number'
    and type(task[SEQ]) == 'number'
    and type(task[ENQUEUED]) == 'number'
    and type(task[FINISHED] or 0) == 'number'
    and type(task[DEATHS] or 0) == 'number'
    and task
end

-- Whether retention has outlived the task's record, swept or not.
local function is_outlived(task)
  return TERMINAL[task[STATE]] and not task[LETTER] and (task[FINISHED] or 0) <= NOW - RETENTION.results * 1000
end

local function freeze(task)
  local width = task[LETTER] == nil and ENDED_WIDTH or WIDTH
  if
    task[AWAITED] or task[PENDING] or task[ON_FAILURE] or task[RELEASE_DELAY] or task[ENDS] or task[PASSES]
    or task[EVENT] or task[STEPS] or task[SINCE]
  then
    width = LINKED_WIDTH
    task[DEATHS] = task[DEATHS] or 0
    for field = ENDED_WIDTH + 1, width do
      task[field] = task[field] or false
    end
  end
  return packed_head(width, task[FENCE], task[HELD]) .. cmsgpack.pack(unpack(task, STATE, width))
end

-- Where the items of a packed list begin.
local function first_item(packed)
  local head = packed:byte(1)
  return head == 0xdd and 5 or head == 0xdc and 3 or 1
end
