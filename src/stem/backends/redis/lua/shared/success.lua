-- Most endings are successes that add nothing to the meta: they copy what stays of the packed task, and never make a table
-- of it.
local held_head, ended_head, last_fence
local front, last_attempt, last_enqueued

-- All before the start of the attempt. Neighbours in a batch often share it.
local function succeeded_front(attempt, enqueued_at, worker)
  if attempt ~= last_attempt or enqueued_at ~= last_enqueued then
    last_attempt, last_enqueued = attempt, enqueued_at
    front = cmsgpack.pack('succeeded', false, false, false, attempt, enqueued_at, NOW, worker)
  end
  return front
end

-- The task as it is kept, false if the lease is not good.
local function succeed(id, key, packed, fence, run, payload, worker)
  if fence ~= last_fence then
    held_head, ended_head, last_fence = packed_head(WIDTH, fence, true), packed_head(ENDED_WIDTH, fence, false), fence
  end
  if packed:sub(1, HEAD) ~= held_head then
    return false
  end
  local middle, state, _, _, is_aside, attempt, enqueued_at, _, _, started_at, _, beat =
    cmsgpack.unpack_limit(packed, SEQ - STATE, HEAD)
  local behind, _, _, name, queue = cmsgpack.unpack_limit(packed, UNIQUE - SEQ, middle)
  if run and state ~= 'running' then
    started_at = NOW - run
    log(2, 'ran', NOW, id, name, queue, attempt, worker, enqueued_at, started_at, false)
  else
    log(1, 'succeeded', NOW, id, name, queue, attempt, worker, enqueued_at, started_at, false)
  end
  if is_aside then
    drop_body(id)
  end
  if packed:byte(behind + 1) ~= NONE then
    local _, unique = cmsgpack.unpack_limit(packed, 1, behind)
    release(unique, id)
  end
  local kept = ended_head .. succeeded_front(attempt, enqueued_at, worker)
    .. cmsgpack.pack(started_at, NOW, beat, payload, false) .. packed:sub(middle + 1, behind)
  write(key, kept)
  unleased(id, queue)
  end_of(id, true)
  return kept
end
