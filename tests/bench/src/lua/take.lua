-- lock-counter, as published: the caller ignores what this returns.
--
-- KEYS[1] users who have grabbed  KEYS[2] counter  ARGV[1] the user
if redis.call('sadd', KEYS[1], ARGV[1]) == 1 then
  return redis.call('decr', KEYS[2])
end
return -1
