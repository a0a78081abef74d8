-- Leases of running tasks that were reclaimed. It is not known yet whether their holders have died or were only away.
local LOST = 3600000 -- milliseconds for which it is remembered

local function lost_key(id, fence)
  return PREFIX .. string.format('lost:%d:', fence) .. id
end
