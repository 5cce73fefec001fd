-- lock-counter with a guard: the counter never falls below zero.
--
-- KEYS[1] users who have grabbed  KEYS[2] counter  ARGV[1] the user
if tonumber(redis.call('get', KEYS[2])) <= 0 then return -2 end
if redis.call('sadd', KEYS[1], ARGV[1]) == 1 then
  return redis.call('decr', KEYS[2])
end
return -1
