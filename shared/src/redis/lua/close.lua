#!lua flags=allow-oom
-- close: ends the grabs of a part. Its holds stay. Its free slips are taken off the list, and wait for the ledger to decide them.
--
-- It also runs when memory is full: it hardly needs any, and the operator's word must not wait. A part that is not
-- loaded gives out no slip.
--
-- KEYS  1   the part's hash
--       2   the list of its free slips
--
-- Returns
--   0  the part is not loaded
--   1  it is closed, by this call or before

local call = redis.call
local part, free = KEYS[1], KEYS[2]

local expires, ack, slip_count, known_count = unpack(call('HMGET', part, '$expires_at', '$ack_mode', '$slip_count', '$known_count'))
if not expires then return 0 end
call('HSET', part, '$word', (ack == 'redis' or slip_count == known_count) and 'c1' or 'c0')
call('DEL', free)
return 1
