-- park: notes with a held slip why it can't be persisted, so that settle passes it by and an operator finds it.
--
-- KEYS[1] held
-- ARGV[1] the slip  ARGV[2] the user for whom it is held  ARGV[3] the reason
--
-- Returns 1 if it is parked, 0 if it is not held for that user any more.

local held, slip, user, reason = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local at, holder = (redis.call('HGET', held, slip) or ''):match('^(%d+) (%S+)')
if holder ~= user then return 0 end
redis.call('HSET', held, slip, at .. ' ' .. user .. ' ' .. reason)
return 1
