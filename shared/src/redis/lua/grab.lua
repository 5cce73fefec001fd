-- grab: takes a slip for each of one or more users, of one or more parts of one partition, in one round trip.
--
-- KEYS[1] dirty, then for each part (no part twice): claims, slips, held
-- ARGV for each part: its name, the number of users, then for each user (no user twice in a part): his id, and the digest
-- of his passphrase or ''
--
-- Returns for each part nil if it is not loaded; else one string for each user, in order:
--   g<slip>:<amount>:<at>  his confirmed claim: the answer for ever, also after expiry
--   h<slip>:<at>           the slip that was held for him before: not yet in the ledger
--   n<slip>:<at>           a slip that is held for him now
--   r, p, t<ms>            turned away: not a recipient, wrong passphrase, too many of them for another <ms>
--   s0, s1, e0, e1         no slip: sold out, or expired; 1 where that is certain, because every slip's fact is known
--                          (or because the packet's grabs are answered on the word of the hot store)
--
-- A script does not roll back, so all of a part that can refuse comes before its first write; and the first write of all
-- is one that Redis refuses when its memory is full. Where a later part is refused the users of those before it find
-- what is held for them when they ask again.

local TRIES, TRIES_MS = 10, 60000

local call = redis.call
local dirty = KEYS[1]

-- In milliseconds.
local function clock()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A part that holds something is in `dirty`, and says so in its field `#d`, which is read anyhow: then nothing is left to
-- write there. Whatever takes a part out of `dirty` takes the field away too.

-- One user of a part without a guard who has nothing yet, by far the most frequent call: the same as below in fewer
-- steps. Returns nil where there is more to it than that.
local function grab_one(claims, slips, held, part, user)
  local terms = call('HMGET', claims, '#x', '#g', '#d', user)
  local expires, guard, is_dirty, claim = terms[1], terms[2], terms[3], terms[4]
  if not expires or guard or claim then return nil end
  local now = clock()
  if now >= tonumber(expires) then return nil end
  local slip = call('LINDEX', slips, 0)
  if not slip then return nil end
  local at = string.format('%d', now)
  local hold = slip .. ':' .. at
  if is_dirty then
    call('HSET', claims, user, 'h' .. hold)
  else
    call('ZADD', dirty, 'NX', at, part)
    call('HSET', claims, user, 'h' .. hold, '#d', '1')
  end
  call('HSET', held, slip, at .. ' ' .. user)
  call('LTRIM', slips, 1, -1)
  return {{'n' .. hold}}
end

if #KEYS == 4 and ARGV[2] == '1' then
  local answer = grab_one(KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[3])
  if answer then return answer end
end

local now = clock()
local at = string.format('%d', now)

-- What turns a user away, if anything does; a wrong passphrase is counted by the caller.
local function turned_away(claims, guard, user, digest)
  if guard:sub(1, 1) == 'r' and call('HEXISTS', claims, '#r:' .. user) == 0 then return 'r' end
  local wanted = guard:match('p(.*)$')
  if not wanted then return nil end
  local tries = call('HGET', claims, '#t:' .. user)
  if tries then
    local count, since = tries:match('^(%d+):(%d+)$')
    local left = since + TRIES_MS - now
    if tonumber(count) >= TRIES and left > 0 then return 't' .. string.format('%d', left) end
  end
  if digest ~= wanted then return 'p' end
  return nil
end

local function count_wrong(claims, user)
  local tries = call('HGET', claims, '#t:' .. user)
  local count, since = 0, now
  if tries then
    local counted, from = tries:match('^(%d+):(%d+)$')
    if from + TRIES_MS > now then count, since = tonumber(counted), tonumber(from) end
  end
  call('HSET', claims, '#t:' .. user, string.format('%d:%d', count + 1, since))
end

-- The answers for the users at ARGV[first], ARGV[first + 2], …, ARGV[last - 1].
local function grab(claims, slips, held, part, first, last)
  local fields = {'#x', '#g', '#d'}
  for i = first, last, 2 do fields[#fields + 1] = ARGV[i] end
  local found = call('HMGET', claims, unpack(fields))
  local expires, guard, is_dirty = tonumber(found[1]), found[2], found[3]
  if not expires then return false end

  local answers, takers, wrong = {}, {}, {}
  for i = 1, #found - 3 do
    local claim = found[i + 3]
    local refusal = not claim and guard and turned_away(claims, guard, fields[i + 3], ARGV[first + 2 * i - 1])
    if claim then
      answers[i] = claim
    elseif refusal then
      answers[i] = refusal
      if refusal == 'p' then wrong[#wrong + 1] = fields[i + 3] end
    else
      takers[#takers + 1] = i
    end
  end

  local taken = {}
  if #takers > 0 and now < expires then taken = call('LRANGE', slips, 0, #takers - 1) end
  local free = #taken
  if free > 0 then
    local to_claims, to_held = {}, {}
    for n = 1, free do
      local i, slip = takers[n], taken[n]
      local user, hold = fields[i + 3], slip .. ':' .. at
      to_claims[2 * n - 1], to_claims[2 * n] = user, 'h' .. hold
      to_held[2 * n - 1], to_held[2 * n] = slip, at .. ' ' .. user
      answers[i] = 'n' .. hold
    end
    if not is_dirty then
      call('ZADD', dirty, 'NX', now, part)
      to_claims[2 * free + 1], to_claims[2 * free + 2] = '#d', '1'
    end
    call('HSET', claims, unpack(to_claims))
    call('HSET', held, unpack(to_held))
    call('LTRIM', slips, free, -1)
  end
  if free < #takers then
    local terms = call('HMGET', claims, '#n', '#c', '#a')
    local certain = terms[1] == terms[2] or terms[3] == 'redis'
    local none = (now < expires and 's' or 'e') .. (certain and '1' or '0')
    for n = free + 1, #takers do answers[takers[n]] = none end
  end
  for _, user in ipairs(wrong) do count_wrong(claims, user) end
  return answers
end

local all, next_arg = {}, 1
for key = 2, #KEYS, 3 do
  local first = next_arg + 2
  local last = first + 2 * tonumber(ARGV[next_arg + 1]) - 1
  all[#all + 1] = grab(KEYS[key], KEYS[key + 1], KEYS[key + 2], ARGV[next_arg], first, last)
  next_arg = last + 1
end
return all
