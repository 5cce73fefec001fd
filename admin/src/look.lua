-- look: all that a part is in Redis, at one moment.
--
-- KEYS[1] claims  KEYS[2] slips  KEYS[3] facts
--
-- Returns {claims, slips, facts}: field, value, …; slip, …; the bitmap, or ''.

return {
  redis.call('HGETALL', KEYS[1]),
  redis.call('LRANGE', KEYS[2], 0, -1),
  redis.call('GET', KEYS[3]) or '',
}
