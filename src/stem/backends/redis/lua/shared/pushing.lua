-- Turn packed pushes into tasks. A known id is left alone; a unique key that is held answers with its holder.
-- A push is {options or false, id, name, queue, priority, meta, unique key if it is held until the end, body unless it is
-- large}; options {delay, due, lifetime, expires, visible, unique key, hold, large body, links or nothing}; links {ids for
-- which it waits or false, on_failure, place and length of a join's payload in its body or false, the join that it is added to
-- or false, which holders of its key it supersedes or false, how long these can put it off or false}.
local PUSHED = 8 -- fields of a push
local awaiting = {} -- id → the task, or a list of those, in the same batch that will wait for it; given by the script

-- Whether the task was cancelled: its work is not done, so its key is free.
local function is_cancelled(id)
  read_packed({ id })
  local task = known(id)
  return task and task[STATE] == 'cancelled'
end

-- A new task that others wait for, as it is stored; `front` and `rest` are those of one for which nobody waits.
local function awaited_task(id, front, rest)
  local awaited = awaiting[id]
  if type(awaited) == 'table' then
    spread(awaited, 'RPUSH', PREFIX .. 'dependents:' .. id)
    awaited = true
  end
  fresh[id] = true
  return packed_head(LINKED_WIDTH, 0, false) .. front:sub(HEAD + 1) .. rest
    .. cmsgpack.pack(awaited, false, false, false, false, false, false, false, false)
end

local function add_member(join_id, id)
  local join_task = known(join_id)
  redis.call('SADD', PREFIX .. 'pending:' .. join_id, id)
  note(join_task, 'spawned.' .. id, 'true')
  if not TERMINAL[join_task[STATE]] then
    touch(join_task)
  else
    rewrite(join_task)
  end
end

-- Cancel the holder of a key, if it waits or may be stopped. Returns its id if so, and when its series began, which a claim
-- ends.
local function supersede(id, mode)
  local task = known(id)
  if not task or TERMINAL[task[STATE]] or task[HELD] and mode ~= 'running' then
    return nil, NOW
  end
  if not task[HELD] and not task[PENDING] then
    leave_queue(task)
  end
  local since = task[FENCE] == 0 and (task[SINCE] or task[ENQUEUED]) or NOW
  cancel_because(task, 'superseded')
  return id, since
end

-- Store a new task that waits for others, or is added to a join, or belongs to a series. Returns when it is due; nil if it
-- is blocked or has ended.
local function link_new(task, links, delay, since)
  local after, on_failure, ends, into, _, most = unpack(links)
  touch(task)
  task[ON_FAILURE], task[ENDS] = after and on_failure, ends
  task[RELEASE_DELAY], task[SINCE] = after and delay, since < NOW and since
  if into then
    add_member(into, task[ID])
  end
  if (after or ends) and block(task, after or {}) then
    return nil
  end
  task[DUE] = math.min(delay and NOW + delay or task[DUE], most and since + most or math.huge)
  return task[DUE]
end

-- The unique key of a push: whether it may be stored, else the holder; whom it superseded; and when its series began.
local function take_key(id, key, hold, mode)
  local keeper, superseded, since = holder(key), nil, NOW
  if keeper and not is_cancelled(keeper) then
    if not mode then
      return keeper
    end
    superseded, since = supersede(keeper, mode)
  end
  if not hold or hold > 0 then
    uniques[key], uniques_set[key] = id, hold and math.ceil(hold / 1000) or -1
  end
  return nil, superseded, since
end

-- Take in the push that is packed at this offset; its id, and those that it names, must have been read. Returns what became
-- of it (true, false for a known id, the id that holds its key, or a list with the one that it superseded), and where the next
-- one begins.
local function push(packed, offset)
  local behind, options, id, name, queue, priority, meta, unique, body = cmsgpack.unpack_limit(packed, PUSHED, offset + 1)
  if is_taken(id) then
    return false, behind
  end
  local first, delay, due, lifetime, expires, visible = offset + 3, false, NOW, false, false, false
  local key, hold, large, links, keeper, superseded, since = false, false, false, false, nil, nil, NOW
  if options then
    first = cmsgpack.unpack_limit(packed, 1, offset + 1) + 1
    delay, due, lifetime, expires, visible, key, hold, large, links = unpack(options)
    due, expires = due or NOW, lifetime and NOW + lifetime or expires
    if key then
      keeper, superseded, since = take_key(id, key, hold, links and links[5])
      if keeper then
        return keeper, behind
      end
    end
  end
  if tasks[id] then -- an outlived one
    drop_links(id)
  end
  if large and links then -- it may be read, and dropped, before the end of this script
    redis.call('SET', PREFIX .. 'b:' .. id, large)
  elseif large then
    bodies[#bodies + 1], bodies[#bodies + 2] = PREFIX .. 'b:' .. id, large
  end
  local seq, front = number('seq'), new_front(expires, visible, large and true)
  due = not links and delay and NOW + delay or due
  local rest = cmsgpack.pack(seq) .. packed:sub(first, behind) .. new_back(due)
  tasks[id] = awaiting[id] and awaited_task(id, front, rest) or front .. rest
  write(PREFIX .. 't:' .. id, tasks[id])
  indexed[entries + 1], indexed[entries + 2] = seq, id
  entries = entries + 2
  log(1, 'enqueued', NOW, id, name, queue, 0, false, NOW, false, with_tenant(false, tenant_in(body or large)))
  due = not links and due or links and link_new(known(id), links, delay, since)
  if due then
    enter(id, queue, priority, seq, due)
  end
  return superseded and { superseded } or true, behind
end

-- It is blocked, or was cancelled for a failed member and can be revived: either way it still counts its members.
local function is_open_join(task)
  return task and task[PENDING] and type(task[ENDS]) == 'table'
end

-- Whether a push with this key will be stored. `freed` and `taken` are keys that the batch frees and takes before it.
local function will_take(key, supersedes, freed, taken)
  local keeper = not freed[key] and holder(key)
  if not supersedes and (taken[key] or keeper and not is_cancelled(keeper)) then
    return false
  end
  taken[key] = true
  return true
end

-- The unique key that an ending will free.
local function freed_by(task, ends)
  local key = ends and task[UNIQUE]
  local is_freed = key and holder(key) == task[ID] and (ends == 'revoked' or redis.call('PTTL', PREFIX .. 'u:' .. key) == -1)
  return is_freed and key
end

-- The first of these ids that is unknown.
local function unknown_of(after, stored, but)
  for _, id in ipairs(after) do
    if id == but or not stored[id] and not is_taken(id) then
      return id
    end
  end
end

-- What a batch names and is not there: {prerequisite = id} or {join = id}; nil if all of it is. Nothing is written before.
-- `checks` has, in order, for each push its id if it names nothing, else {id, after, into, key, supersedes}; before the
-- follow-ups of an ending {lease, fence, ends = its kind if it frees a key}, and after them {blocks = ids, but = its own id}.
-- `stored` are further ids that will be there.
local function missing(checks, stored)
  local freed, taken, is_valid, settled = {}, {}, true, {}
  for _, check in ipairs(checks) do
    if type(check) == 'table' then
      read_packed(check.after or check.blocks or {})
      read_packed({ check.into or nil })
    end
  end
  stored = stored or {}
  for _, check in ipairs(checks) do
    local unknown
    if type(check) == 'string' then
      stored[check] = is_valid or stored[check]
    elseif check.lease then -- of two endings for one lease the first counts, and of one for a lost lease nothing does
      local task = held(check.lease, check.fence)
      is_valid = task and not settled[check.lease]
      settled[check.lease] = is_valid or settled[check.lease]
      freed[is_valid and freed_by(task, check.ends) or ''] = true
    elseif is_valid and check.blocks then
      unknown = unknown_of(check.blocks, stored, check.but)
    elseif is_valid and not stored[check.id] and not is_taken(check.id) then
      unknown = unknown_of(check.after, stored)
      if check.into and not is_open_join(known(check.into)) then
        return { join = check.into }
      end
      stored[check.id] = not check.key or will_take(check.key, check.supersedes, freed, taken)
    end
    if unknown then
      return { prerequisite = unknown }
    end
  end
end
