-- outbox: the holds of a part.
--
-- KEYS  1   the part's hash
--
-- Returns {user, hold, user, hold, ...}; a hold is h<slip>:<at>, then ':' and the reason if it is parked

local all, holds = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  if all[i + 1]:sub(1, 1) == 'h' and all[i]:sub(1, 1) ~= '#' then
    holds[#holds + 1], holds[#holds + 2] = all[i], all[i + 1]
  end
end
return holds
