-- A write batch: tasks are read once, changed in Lua, and written by commit() with few commands for the whole batch.
local tasks = {} -- id → task, or packed task as long as nobody has looked into it; false where the store has none
local changed, changes = {}, 0 -- with their number, for asking a long table its length is a search
local bodies = {}
local indexed, entries = {}, 0
local ready, delayed = {}, {} -- queue → score, member, …
local letters_added, letters_removed = {}, {}
local dead = {} -- queue → by how much its count changes

local function append(lists, name, a, b)
  local list = lists[name]
  if not list then
    list = { n = 0 }
    lists[name] = list
  end
  local length = list.n
  list[length + 1], list[length + 2], list.n = a, b, length + 2
end

local function read_packed(ids)
  local wanted = {}
  for _, id in ipairs(ids) do
    if tasks[id] == nil then
      tasks[id] = false
      wanted[#wanted + 1] = id
    end
  end
  for i, packed in ipairs(fetch('t:', wanted)) do
    tasks[wanted[i]] = packed
  end
end

-- The task of this id, which must have been read.
local function known(id)
  local task = tasks[id]
  if type(task) == 'string' then
    task = readable(task)
    tasks[id] = task
  end
  return task
end

local function read(ids)
  read_packed(ids)
  for _, id in ipairs(ids) do
    known(id)
  end
end

-- Their bodies, in order.
local function bodies_of(list)
  local found, ids, places = {}, {}, {}
  for i, task in ipairs(list) do
    found[i] = task[BODY]
    if not task[BODY] then
      ids[#ids + 1] = task[ID]
      places[#ids] = i
    end
  end
  for i, body in ipairs(fetch('b:', ids)) do
    found[places[i]] = body or ''
  end
  return found
end

-- The task, if the lease on it is still good.
local function held(id, fence)
  local task = known(id)
  return task and task[HELD] and task[FENCE] == fence and task
end

local function touch(task)
  if task[FORMAT] == UNCHANGED then
    task[FORMAT] = CHANGED
    changes = changes + 1
    changed[changes] = task
  end
end

-- The tenant of the task, as JSON; false for none. Kept beside the fields, which are all that is stored.
local function tenant_of(task)
  if task.tenant == nil then
    task.tenant = tenant_in(task[BODY] or task[ASIDE] and redis.pcall('GET', PREFIX .. 'b:' .. task[ID]))
  end
  return task.tenant
end

-- What a task reports is told as it is.
local function report(kind, task, data)
  log(
    1, kind, NOW, task[ID], task[NAME], task[QUEUE], task[ATTEMPT], task[WORKER], task[ENQUEUED], task[STARTED], data or false
  )
end

local function tell(kind, task, at, data)
  data = with_tenant(data, tenant_of(task))
  log(1, kind, at, task[ID], task[NAME], task[QUEUE], task[ATTEMPT], task[WORKER], task[ENQUEUED], task[STARTED], data)
end

-- A delayed member sorts by age where due times are equal, and a ready score can be made of it.
local function enter(id, queue, priority, seq, due)
  if due <= NOW then
    append(ready, queue, (9 - priority) * RANK + seq, id)
  else
    append(delayed, queue, due, string.format('%015d%d', seq, priority) .. id)
  end
end

-- Take what was entered by this script out again.
local function unenter(list, member)
  for i = 2, list and list.n or 0, 2 do
    if list[i] == member then
      list[i - 1], list[i] = list[list.n - 1], list[list.n]
      list[list.n - 1], list[list.n], list.n = nil, nil, list.n - 2
      return 1
    end
  end
  return 0
end

-- Whether the task was ready or delayed; it is no longer.
local function leave_queue(task)
  local id, queue = task[ID], task[QUEUE]
  local member = string.format('%015d%d', task[SEQ], task[PRIORITY]) .. id
  return redis.call('ZREM', PREFIX .. 'ready:' .. queue, id)
    + redis.call('ZREM', PREFIX .. 'delayed:' .. queue, member)
    + unenter(ready[queue], id)
    + unenter(delayed[queue], member) > 0
end

local function unlease(task)
  if task[HELD] then
    task[HELD] = false
    unleased(task[ID], task[QUEUE])
  end
end

local function start(task, worker, at)
  touch(task)
  task[STATE], task[WORKER], task[STARTED], task[UPDATED] = 'running', worker, at, NOW
  tell('started', task, at)
end

local function note(task, key, value)
  task[META] = task[META] or {}
  task[META][key] = value
end

local function wait_again(task, due)
  touch(task)
  unlease(task)
  task[WORKER], task[STARTED], task[EVENT] = false, false, false
  task[STATE], task[UPDATED] = task[ATTEMPT] == 0 and 'queued' or 'retried', NOW
  task[DUE] = due
  enter(task[ID], task[QUEUE], task[PRIORITY], task[SEQ], due)
end

-- Nothing will run this task again: keep its record only.
local function retire(task)
  if task[ASIDE] then
    drop_body(task[ID])
  end
  task[EXPIRES], task[VISIBLE], task[ASIDE] = false, false, false
  task[UNIQUE], task[BODY], task[DUE], task[DEATHS], task[LETTER] = nil, nil, nil, nil, nil
  task[ON_FAILURE], task[RELEASE_DELAY], task[EVENT], task[SINCE] = false, false, false, false
end

local function finish(task, state, failure)
  touch(task)
  tenant_of(task) -- while its envelope is there
  unlease(task)
  task[STATE], task[ERROR], task[FINISHED], task[UPDATED] = state, failure, NOW, NOW
  if task[UNIQUE] then
    release(task[UNIQUE], task[ID], state == 'cancelled')
  end
  if task[AWAITED] then
    note_end(task[ID], task[AWAITED], state == 'succeeded' or task[PASSES])
  end
  if state ~= 'failed' and not task[PENDING] then -- what is pending may be revived
    retire(task)
  end
end

local function fail(task, reason, failure, meta, data)
  finish(task, 'failed', failure)
  local seq = number('dead')
  task[LETTER] = { seq, reason, meta }
  letters_added[#letters_added + 1] = seq
  letters_added[#letters_added + 1] = task[ID]
  dead[task[QUEUE]] = (dead[task[QUEUE]] or 0) + 1
  tell('failed', task, NOW, data)
  tell('dead-lettered', task, NOW, data)
end

local function remove_letter(task)
  touch(task)
  task[LETTER] = false
  letters_removed[#letters_removed + 1] = task[ID]
  dead[task[QUEUE]] = (dead[task[QUEUE]] or 0) - 1
end

-- Whether a task has the id. One whose record has outlived its retention has it no longer, swept or not, unless others
-- need it.
local function is_taken(id)
  local task = known(id)
  return task and not (is_outlived(task) and not is_needed(task, NOW - RETENTION.results * 1000, {}))
end

local function write_tasks()
  local late = {}
  for i = 1, changes do
    local task = changed[i]
    local id = task[ID]
    write(PREFIX .. 't:' .. id, freeze(task))
    if TERMINAL[task[STATE]] then
      if task[FINISHED] ~= NOW then
        late[#late + 1] = task[FINISHED] or 0
        late[#late + 1] = id
      end
      end_of(id, task[FINISHED] == NOW and not task[LETTER])
    end
  end
  spread(late, 'ZADD', PREFIX .. 'late')
end

local function commit()
  local entered = {}
  write_tasks()
  write_endings()
  spread(bodies, 'MSET')
  spread(indexed, 'ZADD', PREFIX .. 'index')
  spread(letters_removed, 'ZREM', PREFIX .. 'dead')
  spread(letters_added, 'ZADD', PREFIX .. 'dead')
  write_counts('buried', dead)
  for queue, scores in pairs(ready) do
    spread(scores, 'ZADD', PREFIX .. 'ready:' .. queue)
    entered[queue] = true
  end
  for queue, scores in pairs(delayed) do
    spread(scores, 'ZADD', PREFIX .. 'delayed:' .. queue)
    entered[queue] = true
  end
  for queue in pairs(entered) do
    announce(queue)
  end
  close_log()
  flush_numbers()
end
