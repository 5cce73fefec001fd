-- grab: takes a slip for each of one or more users of one part, in one round trip.
--
-- KEYS[1] claims  KEYS[2] slips  KEYS[3] held  KEYS[4] dirty
-- ARGV[1] the part's name, then for each user (no user twice): his id, and the digest of his passphrase or ''
--
-- Returns nil if the part is not loaded; else one string for each user, in order:
--   g<slip>:<amount>:<at>  his confirmed claim: the answer for ever, also after expiry
--   h<slip>:<at>           the slip that was held for him before: not yet in the ledger
--   n<slip>:<at>           a slip that is held for him now
--   r, p, t<ms>            turned away: not a recipient, wrong passphrase, too many of them for another <ms>
--   s0, s1, e0, e1         no slip: sold out, or expired; 1 where that is certain, because every slip's fact is known
--                          (or because the packet's grabs are answered on the word of the hot store)
--
-- A script does not roll back, so all that can refuse comes before the first write; and the first write is one that
-- Redis refuses when its memory is full.

local TRIES, TRIES_MS = 10, 60000

local claims, slips, held, dirty = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local part = ARGV[1]

local fields = {'#x', '#g'}
for i = 2, #ARGV, 2 do fields[#fields + 1] = ARGV[i] end
local found = redis.call('HMGET', claims, unpack(fields))
local expires, guard = tonumber(found[1]), found[2]
if not expires then return nil end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local at = string.format('%d', now)

-- What turns a user away, if anything does; a wrong passphrase is counted by the caller.
local function turned_away(user, digest)
  if guard:sub(1, 1) == 'r' and redis.call('HEXISTS', claims, '#r:' .. user) == 0 then return 'r' end
  local wanted = guard:match('p(.*)$')
  if not wanted then return nil end
  local tries = redis.call('HGET', claims, '#t:' .. user)
  if tries then
    local count, since = tries:match('^(%d+):(%d+)$')
    local left = since + TRIES_MS - now
    if tonumber(count) >= TRIES and left > 0 then return 't' .. string.format('%d', left) end
  end
  if digest ~= wanted then return 'p' end
  return nil
end

local answers, takers, wrong = {}, {}, {}
for i = 1, #found - 2 do
  local user, claim = ARGV[2 * i], found[i + 2]
  local refusal = not claim and guard and turned_away(user, ARGV[2 * i + 1])
  if claim then
    answers[i] = claim
  elseif refusal then
    answers[i] = refusal
    if refusal == 'p' then wrong[#wrong + 1] = user end
  else
    takers[#takers + 1] = i
  end
end

local free = 0
if #takers > 0 and now < expires then free = math.min(redis.call('LLEN', slips), #takers) end
if free > 0 then
  redis.call('ZADD', dirty, 'NX', now, part)
  local taken = redis.call('LPOP', slips, free)
  local to_claims, to_held = {}, {}
  for n = 1, free do
    local i, slip = takers[n], taken[n]
    local user, hold = ARGV[2 * i], slip .. ':' .. at
    to_claims[2 * n - 1], to_claims[2 * n] = user, 'h' .. hold
    to_held[2 * n - 1], to_held[2 * n] = slip, at .. ' ' .. user
    answers[i] = 'n' .. hold
  end
  redis.call('HSET', claims, unpack(to_claims))
  redis.call('HSET', held, unpack(to_held))
end
if free < #takers then
  local terms = redis.call('HMGET', claims, '#n', '#c', '#a')
  local certain = terms[1] == terms[2] or terms[3] == 'redis'
  local none = (now < expires and 's' or 'e') .. (certain and '1' or '0')
  for n = free + 1, #takers do answers[takers[n]] = none end
end

for _, user in ipairs(wrong) do
  local tries = redis.call('HGET', claims, '#t:' .. user)
  local count, since = 0, now
  if tries then
    local counted, from = tries:match('^(%d+):(%d+)$')
    if from + TRIES_MS > now then count, since = tonumber(counted), tonumber(from) end
  end
  redis.call('HSET', claims, '#t:' .. user, string.format('%d:%d', count + 1, since))
end

return answers
