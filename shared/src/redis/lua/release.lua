#!lua flags=allow-oom
-- release: ends the hold of a user who may not have its slip. The slip is free again, unless it has a decision.
--
-- KEYS  1   the part's hash
--       2   the list of its free slips
--       3   its bitmap of known decisions
--       4   its partition's queue
-- ARGV  1   the part's name
--       2   its first slip
--       3   the slip
--       4   the user that it is held for
--
-- Returns nothing, also if the slip is not held for that user any more: then nothing changes

local call = redis.call
local part, free, known, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, first, slip, user = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local expires, forget, word, entry = unpack(call('HMGET', part, '$expires_at', '$forget_at', '$word', user))
if not expires or (entry or ''):match('^h(%d+):') ~= slip then return end
call('HDEL', part, user)
if call('HINCRBY', part, '$held_count', '-1') == 0 then
  call('ZREM', queue, name)
  call('PEXPIREAT', part, forget)
end
-- One hold fewer: not every slip is taken.
if (word or ''):sub(1, 1) == 's' then call('HDEL', part, '$word') end
-- A bitmap that is lost knows of no decision. The ledger then refuses the claim of the user who gets the slip.
if not (word and word:sub(1, 1) == 'c') and call('GETBIT', known, slip - first) == 0 then
  call('LPUSH', free, slip)
  call('PEXPIREAT', free, expires)
end
