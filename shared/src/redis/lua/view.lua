#!lua flags=no-writes
-- look: what a part knows of its slips, for those who only look. Nothing is changed.
--
-- KEYS[1] claims
-- ARGV[1] the version that the caller has seen, or ''
--
-- Returns {0} if the part is not loaded, {1} if it still has that version, else {2, version, number of decisions, user, claim,
-- user, claim, ...} with what `claims` has of each user: `g<slip>:<amount>:<at>` confirmed, or `h<slip>:<at>` held
-- (then ':' and why, if it is parked).
--
-- The version is the number of decisions and that of the fields. Whatever a user gets or loses changes one of them (save that a
-- hold gives way to the same user's claim of another part, which is told there), and reading two numbers costs less than
-- reading all claims, which most readers have already.

local claims, seen = KEYS[1], ARGV[1]
local terms = redis.call('HMGET', claims, '$expires_at', '$known_count')
if not terms[1] then return {0} end
local version = terms[2] .. ':' .. redis.call('HLEN', claims)
if version == seen then return {1} end

local all = redis.call('HGETALL', claims)
local known = {2, version, terms[2]}
for i = 1, #all, 2 do
  if all[i]:sub(1, 1) ~= '#' then
    known[#known + 1] = all[i]
    known[#known + 1] = all[i + 1]
  end
end
return known
