-- look: all that a part is in Redis, at one moment.
--
-- KEYS[1] claims  KEYS[2] slips  KEYS[3] held  KEYS[4] facts
--
-- Returns {claims, slips, held, facts}: field, value, …; slip, …; slip, hold, …; the bitmap, or ''.

return {
  redis.call('HGETALL', KEYS[1]),
  redis.call('LRANGE', KEYS[2], 0, -1),
  redis.call('HGETALL', KEYS[3]),
  redis.call('GET', KEYS[4]) or '',
}
