#!lua flags=allow-oom
-- close: ends the grabs of a part. Its holds stay. Its free slips stay free until the ledger decides them, but no grab takes one.
--
-- It also runs when memory is full: it hardly needs any, and the operator's word must not wait.
--
-- KEYS  1   the part's hash
--
-- Returns
--   0  the part is not loaded
--   1  it is closed, by this call or before

local part = KEYS[1]
local terms = redis.call('HMGET', part, '$expires_at', '$guard')
if not terms[1] then return 0 end
local recipients = terms[2] and terms[2]:sub(1, 1) == 'r' and 'r' or ''
redis.call('HSET', part, '$guard', recipients .. 'pclosed')
-- Without it no grab takes the fast path.
redis.call('HDEL', part, '$open_until')
return 1
