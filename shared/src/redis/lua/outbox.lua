#!lua flags=no-writes
-- outbox: the holds of a part.
--
-- KEYS  1   the part's hash
--
-- Returns {expiry, user, hold, user, hold, ...}
--   expiry  when the packet expires, in milliseconds; '' if the part is not loaded
--   hold    h<slip>:<left>, then ':' and the reason if it is parked; it was made so long before the expiry

local part = KEYS[1]
local all = redis.call('HGETALL', part)
local holds = {redis.call('HGET', part, '$expires_at') or ''}
for i = 1, #all, 2 do
  if all[i + 1]:sub(1, 1) == 'h' and all[i]:sub(1, 1) ~= '#' then
    holds[#holds + 1], holds[#holds + 2] = all[i], all[i + 1]
  end
end
return holds
