#!lua flags=no-writes
-- snapshot: what grab would answer each user of an exhausted part, so that one call answers all who wait for it. It changes nothing.
--
-- KEYS  1   the part's hash
--
-- Returns
--   {0}  each user needs a grab: the part is not loaded, or has a guard or a free slip
--   {1, others, user, claim, user, claim, ...}  `others` is s0, s1, e0 or e1, as grab answers a user who has nothing; then what the
--        hash has of each user:
--        h<slip>:<at>            a hold; parked: then ':' and the reason
--        g<slip>:<amount>:<at>   a confirmed claim

local part = KEYS[1]
local terms = redis.call('HMGET', part, '$expires_at', '$guard', '$next_free', '$range_end', '$known_count', '$slip_count', '$ack_mode', '$other_ranges')
if not terms[1] or terms[2] then return {0} end
local time = redis.call('TIME')
local is_expired = time[1] * 1000 + math.floor(time[2] / 1000) >= tonumber(terms[1])
if not is_expired and (terms[3] ~= terms[4] or terms[8] ~= '') then return {0} end

local is_certain = terms[5] == terms[6] or terms[7] == 'redis'
local rest = {1, (is_expired and 'e' or 's') .. (is_certain and '1' or '0')}
local all = redis.call('HGETALL', part)
for i = 1, #all, 2 do
  if all[i]:sub(1, 1) ~= '#' then
    rest[#rest + 1] = all[i]
    rest[#rest + 1] = all[i + 1]
  end
end
return rest
