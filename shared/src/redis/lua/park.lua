-- park: notes with a held slip why it can't be persisted, so that settle passes it by and an operator finds it.
--
-- KEYS[1] claims
-- ARGV[1] the slip  ARGV[2] the user for whom it is held  ARGV[3] the reason
--
-- Returns 1 if it is parked, 0 if it is not held for that user any more.

local claims, slip, user, reason = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local held, at = (redis.call('HGET', claims, user) or ''):match('^h(%d+):(%d+)')
if held ~= slip then return 0 end
-- What separates the answers of a grab is no part of one.
redis.call('HSET', claims, user, 'h' .. slip .. ':' .. at .. ':' .. reason:gsub('[,;]', ' '))
return 1
