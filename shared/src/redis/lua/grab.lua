-- grab: takes a slip for each of one or more users, of one or more parts, in one round trip.
--
-- KEYS for each part (no part twice): claims, slips, held, dirty
-- ARGV for each part: its name, the number of users, the users (none twice); after a number that ends in 'p', as many
-- digests of their passphrases, or ''
--
-- Returns one string: the time, in milliseconds, then for each part after a ';' either '-', if it is not loaded, or its
-- users' answers in order, with ',' between them:
--   <slip>                 a slip that is held for him since that time
--   h<slip>:<at>           the slip that was held for him before: not yet in the ledger
--   g<slip>:<amount>:<at>  his confirmed claim: the answer for ever, also after expiry
--   r, p, t<ms>            turned away: not a recipient, wrong passphrase, too many of them for another <ms>
--   s0, s1, e0, e1         no slip: sold out, or expired; 1 where that is certain, because every slip's fact is known
--                          (or because the packet's grabs are answered on the word of the hot store)
--
-- The free slips of a part are those from its field `#s` on up to `#e`, and then those in the list `slips`, which came
-- back or were left over by a load.
--
-- A script does not roll back, so all of a part that can refuse comes before its first write; and the first write of all
-- is one that Redis refuses when its memory is full. Where a later part is refused the users of those before it find
-- what is held for them when they ask again.

local TRIES, TRIES_MS = 10, 60000

local call, format = redis.call, string.format

-- Now, in milliseconds, as a number and as text: one moment for the whole call, asked for when it is needed.
local now, at
local function look_at_the_clock()
  if now then return end
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  at = format('%d', now)
end

-- By far the most frequent call: one user who has nothing yet. The same as below in the fewest steps, for a part whose
-- field `#f` says that it has no guard and is in `dirty` already. Whatever takes a part out of `dirty` takes the field
-- away too; its value is that of `#e`. Returns nil where there is more to it.
local function grab_one(claims, held, user)
  local terms = call('HMGET', claims, '#x', '#s', '#f', user)
  local expires, slip, last, claim = terms[1], terms[2], terms[3], terms[4]
  if claim or not last or slip == last then return nil end
  look_at_the_clock()
  if now >= tonumber(expires) then return nil end
  call('HSET', claims, user, 'h' .. slip .. ':' .. at, '#s', format('%d', slip + 1))
  call('HSET', held, slip, at .. ' ' .. user)
  return slip
end

-- What turns a user away, if anything does; a wrong passphrase is counted by the caller.
local function turned_away(claims, guard, user, digest)
  if guard:sub(1, 1) == 'r' and call('HEXISTS', claims, '#r:' .. user) == 0 then return 'r' end
  local wanted = guard:match('p(.*)$')
  if not wanted then return nil end
  local tries = call('HGET', claims, '#t:' .. user)
  if tries then
    local count, since = tries:match('^(%d+):(%d+)$')
    local left = since + TRIES_MS - now
    if tonumber(count) >= TRIES and left > 0 then return 't' .. format('%d', left) end
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
  call('HSET', claims, '#t:' .. user, format('%d:%d', count + 1, since))
end

-- The answers of the part whose keys begin at KEYS[key] for the `count` users from ARGV[first] on, whose digests stand from
-- ARGV[digests] on.
local function grab(key, part, first, count, digests)
  local claims, slips, held, dirty = unpack(KEYS, key, key + 3)
  local fields = {unpack(ARGV, first, first + count - 1)}
  for _, term in ipairs({'#x', '#g', '#s', '#e', '#f'}) do fields[#fields + 1] = term end
  local found = call('HMGET', claims, unpack(fields))
  local expires, guard = tonumber(found[count + 1]), found[count + 2]
  local next_slip, last, is_marked = tonumber(found[count + 3]), tonumber(found[count + 4]), found[count + 5]
  if not expires then return '-' end
  look_at_the_clock()

  local answers, takers, wrong = {}, {}, {}
  for i = 1, count do
    local claim = found[i]
    local refusal = not claim and guard and turned_away(claims, guard, fields[i], digests and ARGV[digests + i - 1])
    if claim then
      answers[i] = claim
    elseif refusal then
      answers[i] = refusal
      if refusal == 'p' then wrong[#wrong + 1] = fields[i] end
    else
      takers[#takers + 1] = i
    end
  end

  local taken, from_list = {}, {}
  if #takers > 0 and now < expires then
    for slip = next_slip, math.min(next_slip + #takers, last) - 1 do taken[#taken + 1] = format('%d', slip) end
    next_slip = next_slip + #taken
    if #taken < #takers then from_list = call('LRANGE', slips, 0, #takers - #taken - 1) end
    for _, slip in ipairs(from_list) do taken[#taken + 1] = slip end
  end
  local free = #taken
  if free > 0 then
    local held_at, since = ':' .. at, at .. ' '
    local to_claims, to_held = {}, {}
    for n = 1, free do
      local i, slip = takers[n], taken[n]
      local user = fields[i]
      to_claims[2 * n - 1], to_claims[2 * n] = user, 'h' .. slip .. held_at
      to_held[2 * n - 1], to_held[2 * n] = slip, since .. user
      answers[i] = slip
    end
    to_claims[2 * free + 1], to_claims[2 * free + 2] = '#s', format('%d', next_slip)
    if not is_marked then
      call('ZADD', dirty, 'NX', at, part)
      if not guard then to_claims[2 * free + 3], to_claims[2 * free + 4] = '#f', format('%d', last) end
    end
    call('HSET', claims, unpack(to_claims))
    call('HSET', held, unpack(to_held))
    if #from_list > 0 then call('LTRIM', slips, #from_list, -1) end
  end
  if free < #takers then
    local terms = call('HMGET', claims, '#n', '#c', '#a')
    local certain = terms[1] == terms[2] or terms[3] == 'redis'
    local none = (now < expires and 's' or 'e') .. (certain and '1' or '0')
    for n = free + 1, #takers do answers[takers[n]] = none end
  end
  for _, user in ipairs(wrong) do count_wrong(claims, user) end
  return table.concat(answers, ',')
end

local all, next_arg = {}, 1
for key = 1, #KEYS, 4 do
  local count, first = ARGV[next_arg + 1], next_arg + 2
  local answers = count == '1' and grab_one(KEYS[key], KEYS[key + 2], ARGV[first])
  if not answers then
    local users, has_digests = count:match('^(%d+)(p?)$')
    count = tonumber(users)
    local digests = has_digests == 'p' and first + count or nil
    answers = grab(key, ARGV[next_arg], first, count, digests)
    next_arg = (digests or first) + count
  else
    next_arg = first + 1
  end
  all[#all + 1] = answers
end
look_at_the_clock()
return at .. ';' .. table.concat(all, ';')
