-- Leases of running tasks that were reclaimed: whether their holders have died, or only were away, is not known yet.
local LOST = 3600000 -- milliseconds for which it is remembered

local function lost_key(id, fence)
  return PREFIX .. string.format('lost:%d:', fence) .. id
end
