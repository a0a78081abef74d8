-- needs: call
-- Limiter.free: give places up; those not held are left out.
-- INPUT {{key, holder}, …}
for _, place in ipairs(INPUT) do
  redis.call('ZREM', PREFIX .. 'places:' .. place[1], place[2])
end
return 0
