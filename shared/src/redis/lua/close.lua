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

if redis.call('HEXISTS', KEYS[1], '$expires_at') == 0 then return 0 end
redis.call('HSET', KEYS[1], '$guarded', '1', '$closed', '1')
return 1
