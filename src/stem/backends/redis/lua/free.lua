-- needs: call
-- Limiter.free: give up places; a place that its holder does not hold is skipped.
-- INPUT {{key, holder}, …}
for _, place in ipairs(INPUT) do
  redis.call('ZREM', PREFIX .. 'places:' .. place[1], place[2])
end
return 0
