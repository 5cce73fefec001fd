-- final_owners: who has the slips of a final part, so that a process can answer by itself.
--
-- KEYS  1   the part's hash
--
-- Returns
--   {0}  the part is not loaded
--   {1}  it is not final yet
--   {2}  it is final, but has a guard, which only grab checks
--   {3, expiry, user, claim, user, claim, ...}

local part = KEYS[1]
local terms = redis.call('HMGET', part, '$expires_at', '$known_count', '$slip_count', '$guard')
if not terms[1] then return {0} end
if terms[2] ~= terms[3] then return {1} end
if terms[4] then return {2} end

local all = redis.call('HGETALL', part)
local owners = {3, terms[1]}
for i = 1, #all, 2 do
  if all[i]:sub(1, 1) ~= '#' then
    owners[#owners + 1] = all[i]
    owners[#owners + 1] = all[i + 1]
  end
end
return owners
