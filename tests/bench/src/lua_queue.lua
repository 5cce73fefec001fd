-- lua-queue, as published: takes a slip from the list of the free ones, once per user.
--
-- KEYS[1] free  KEYS[2] consumed  KEYS[3] map of users who have one  KEYS[4] the user
--
-- Returns the slip as JSON with its user; nil for a user who has one, and if none is left.
if redis.call('hexists', KEYS[3], KEYS[4]) ~= 0 then
  return nil
else
  local slip = redis.call('rpop', KEYS[1])
  if slip then
    local x = cjson.decode(slip)
    x['userId'] = KEYS[4]
    local re = cjson.encode(x)
    redis.call('hset', KEYS[3], KEYS[4], KEYS[4])
    redis.call('lpush', KEYS[2], re)
    return re
  end
end
return nil
