-- Releases a lock, if it is the caller's.
--
-- KEYS[1] the lock  ARGV[1] the caller's token
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
