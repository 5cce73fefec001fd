-- inspect: all that a part is in Redis, at one moment.
--
-- KEYS  1   the part's hash
--       2   its bitmap of known decisions
--
-- Returns {hash, bitmap}: field, value, …; the bitmap, or ''

return {
  redis.call('HGETALL', KEYS[1]),
  redis.call('GET', KEYS[2]) or '',
}
