-- inspect: all that a part is in Redis, at one moment.
--
-- KEYS[1] claims  KEYS[2] decided
--
-- Returns {claims, decided}: field, value, …; the bitmap, or ''.

return {
  redis.call('HGETALL', KEYS[1]),
  redis.call('GET', KEYS[2]) or '',
}
