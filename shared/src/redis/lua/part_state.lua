#!lua flags=no-writes
-- part_state: what a part knows of its slips, without its users. It changes nothing.
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

local part, known = KEYS[1], KEYS[2]
local terms = redis.call('HMGET', part, '$expires_at', '$forget_at', '$word', '$held_count')
-- Redis always forgets the bitmap at that time, so what is left says what time it is.
local left = redis.call('PTTL', known)
if not terms[1] or left < 0 then return {} end
local is_closed = terms[3] and terms[3]:sub(1, 1) == 'c'
return {terms[2] - left, is_closed and 1 or 0, tonumber(terms[4]), redis.call('GET', known)}
