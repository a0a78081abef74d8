-- End a packed task: copy what its record keeps, without building a table of it. Most endings can be written like this.

-- The record that is kept; `front` is all of it before the sequence number, `middle` and `behind` where to copy from and to.
local function close(id, key, packed, queue, is_aside, front, middle, behind, is_cancelled, links)
  if packed:byte(HEAD) ~= NONE then
    unleased(id, queue)
  end
  if is_aside then
    drop_body(id)
  end
  if packed:byte(behind + 1) ~= NONE then
    local _, unique = cmsgpack.unpack_limit(packed, 1, behind)
    release(unique, id, is_cancelled)
  end
  local kept = front .. packed:sub(middle + 1, behind) .. (links or '')
  write(key, kept)
  end_of(id, true)
  return kept
end

-- Neighbours in a batch often share the first part of what is kept.
local held_head, ended_head, linked_head, ended_linked_head, last_fence
local opening, last_attempt, last_enqueued

-- The record, or false if the lease is not good. `links_of` returns the last fields of a task that has them.
local function succeed(id, key, packed, fence, run, payload, worker, links_of)
  if fence ~= last_fence then
    held_head, ended_head, last_fence = packed_head(WIDTH, fence, true), packed_head(ENDED_WIDTH, fence, false), fence
    linked_head, ended_linked_head = packed_head(LINKED_WIDTH, fence, true), packed_head(LINKED_WIDTH, fence, false)
  end
  local has_links = links_of and packed:byte(WIDTH_AT) == LINKED_WIDTH
  if packed:sub(1, HEAD) ~= (has_links and linked_head or held_head) then
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
  if attempt ~= last_attempt or enqueued_at ~= last_enqueued then
    last_attempt, last_enqueued = attempt, enqueued_at
    opening = cmsgpack.pack('succeeded', false, false, false, attempt, enqueued_at, NOW, worker)
  end
  local front = (has_links and ended_linked_head or ended_head)
    .. opening .. cmsgpack.pack(started_at, NOW, beat, payload, false)
  return close(id, key, packed, queue, is_aside, front, middle, behind, false, has_links and links_of(id, packed, behind))
end

local function expire(id, key, packed, failure)
  local middle, _, _, _, is_aside, attempt, enqueued_at, _, worker, started_at, _, beat, payload =
    cmsgpack.unpack_limit(packed, SEQ - STATE, HEAD)
  local behind, _, _, name, queue = cmsgpack.unpack_limit(packed, UNIQUE - SEQ, middle)
  local _, _, body = cmsgpack.unpack_limit(packed, 2, behind)
  local tenant = tenant_in(body or is_aside and redis.pcall('GET', PREFIX .. 'b:' .. id))
  log(1, 'expired', NOW, id, name, queue, attempt, worker, enqueued_at, started_at, with_tenant(false, tenant))
  local front = packed_head(ENDED_WIDTH, struct.unpack('>I8', packed, FENCE_AT), false)
    .. cmsgpack.pack(
      'cancelled', false, false, false, attempt, enqueued_at, NOW, worker, started_at, NOW, beat, payload, failure
    )
  close(id, key, packed, queue, is_aside, front, middle, behind, true)
end
