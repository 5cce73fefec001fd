#!lua flags=no-writes
-- rest: what grab would tell everybody of a part that gives out nothing more, so that one call answers all who wait for it.
-- Nothing is changed.
--
-- KEYS[1] claims
--
-- Returns {0} if each user has to ask with grab: the part is not loaded, has a guard or a free slip. Else {1, s0, s1, e0 or
-- e1 as grab says it to a user who has nothing, user, claim, user, claim, ...} with what `claims` has of each user:
-- `g<slip>:<amount>:<at>` confirmed, or `h<slip>:<at>` held (then ':' and why, if it is parked).

local claims = KEYS[1]
local terms = redis.call('HMGET', claims, '$expires_at', '$guard', '$next_free', '$range_end', '$known_count', '$slip_count', '$ack_mode', '$other_ranges')
if not terms[1] or terms[2] then return {0} end
local time = redis.call('TIME')
local is_expired = time[1] * 1000 + math.floor(time[2] / 1000) >= tonumber(terms[1])
if not is_expired and (terms[3] ~= terms[4] or terms[8] ~= '') then return {0} end

local is_certain = terms[5] == terms[6] or terms[7] == 'redis'
local rest = {1, (is_expired and 'e' or 's') .. (is_certain and '1' or '0')}
local all = redis.call('HGETALL', claims)
for i = 1, #all, 2 do
  if all[i]:sub(1, 1) ~= '#' then
    rest[#rest + 1] = all[i]
    rest[#rest + 1] = all[i + 1]
  end
end
return rest
