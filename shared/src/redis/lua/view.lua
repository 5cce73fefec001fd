#!lua flags=no-writes
-- view: what a part knows of its slips, without its users. It changes nothing.
--
-- KEYS  1   the part's hash
--       2   its bitmap of known decisions
--
-- Returns
--   {}                         the part is not loaded, or Redis has lost its bitmap
--   {now, closed, held, known}
--        now     Redis' time, in milliseconds
--        closed  1 if the operator has closed the part, else 0
--        held    the number of its holds
--        known   the bitmap

local terms = redis.call('HMGET', KEYS[1], '$expires_at', '$closed', '$held_count')
local known = redis.call('GET', KEYS[2])
if not terms[1] or not known then return {} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return {now, terms[2] and 1 or 0, tonumber(terms[3]), known}
