-- inspect: all that a part is in Redis, at one moment.
--
-- KEYS  1   the part's hash
--       2   its bitmap of known decisions
--       3   the list of its free slips
--
-- Returns {hash, bitmap, list}: field, value, …; the bitmap, or ''; the slips

return {
  redis.call('HGETALL', KEYS[1]),
  redis.call('GET', KEYS[2]) or '',
  redis.call('LRANGE', KEYS[3], '0', '-1'),
}
