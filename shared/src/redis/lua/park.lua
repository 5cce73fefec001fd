#!lua flags=allow-oom
-- park: notes with a hold why it cannot be persisted, so that settle skips it and an operator finds it.
--
-- It also runs when memory is full: a hold that can't be persisted must not keep the refund of the others waiting.
--
-- KEYS  1   the part's hash
-- ARGV  1   the slip
--       2   the user that it is held for
--       3   the reason
--
-- Returns nothing, also if the slip is not held for that user any more: then nothing changes

local part, slip, user, reason = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local held_slip, left = (redis.call('HGET', part, user) or ''):match('^h(%d+):(%d+)')
if held_slip ~= slip then return end
-- A reason must not contain the separators of grab's answers.
redis.call('HSET', part, user, 'h' .. slip .. ':' .. left .. ':' .. reason:gsub('[,;]', ' '))
