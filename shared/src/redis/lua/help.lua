-- help: whether a process may help the holds of an exhausted part, and which of them. To help a hold is to persist it before
-- settle does, because losers wait for it.
--
-- KEYS  1   the part's hash
--       2   its help lease
-- ARGV  1   the least age of a hold that is helped, in milliseconds
--       2   the most holds
--       3   the lease, in milliseconds
--
-- Returns
--   {0}        a grab has another answer by now: the part is not loaded, expired or final, or has a free slip
--   {1, ms}    wait: another process helps, or every hold is too young
--   {2, ms}    the last help was in vain, for so long: a hold is blocked
--   {3, ms}    the last help was in vain, for so long: the ledger was unavailable
--   {4, now, user, hold, user, hold, ...}  the caller has the lease, for these holds, oldest first: h<slip>:<at>. If there are
--              none, every undecided slip is parked or lost. The time is in milliseconds

local call, part, lease = redis.call, KEYS[1], KEYS[2]
local least_age, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local terms = call('HMGET', part, '$expires_at', '$next_free', '$range_end', '$other_ranges', '$known_count', '$slip_count')
if not terms[1] or terms[5] == terms[6] then return {0} end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now >= tonumber(terms[1]) or terms[2] ~= terms[3] or terms[4] ~= '' then return {0} end
local state = call('GET', lease)
if state then return {tonumber(state), call('PTTL', lease)} end

local old, next_wait, all = {}, nil, call('HGETALL', part)
for i = 1, #all, 2 do
  local at = all[i]:sub(1, 1) ~= '#' and all[i + 1]:match('^h%d+:(%d+)$')
  if at then
    -- A hold from the future is one of another server, before a failover: its age is unknown.
    local wait = at + least_age - now
    if wait <= 0 or wait > least_age then
      old[#old + 1] = {tonumber(at), all[i], all[i + 1]}
    else
      next_wait = math.min(wait, next_wait or wait)
    end
  end
end
if #old == 0 and next_wait then return {1, next_wait} end
table.sort(old, function(a, b) return a[1] < b[1] end)
call('SET', lease, '1', 'PX', ARGV[3])
local holds = {4, string.format('%d', now)}
for i = 1, math.min(#old, most) do
  holds[#holds + 1], holds[#holds + 2] = old[i][2], old[i][3]
end
return holds
