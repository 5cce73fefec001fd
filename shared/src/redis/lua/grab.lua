-- grab: takes a slip for each of one or more users, of one or more parts, in one round trip.
--
-- KEYS for each part (no part twice): claims, slips, dirty
-- ARGV for each part: the number of users, the users (none twice); after a number that ends in 'p', as many digests of
-- their passphrases, or ''
--
-- Returns one string: the time, in milliseconds, then for each part after a ';' either '-', if it is not loaded, or its
-- users' answers in order, with ',' between them:
--   <slip>                 a slip that is held for him since that time
--   h<slip>:<at>           the slip that was held for him before: not yet in the ledger; then ':' and why, if it is parked
--   g<slip>:<amount>:<at>  his confirmed claim: the answer for ever, also after expiry
--   r, p, t<ms>            turned away: not a recipient, wrong passphrase, too many of them for another <ms>
--   s0, s1, e0, e1         no slip: sold out, or expired; 1 where that is certain, because every slip's fact is known
--                          (or because the packet's grabs are answered on the word of the hot store)
--
-- The free slips of a part are those from its field `#s` on up to `#e`, and then those in the list `slips`, which came
-- back or were left over by a load. Its outbox is what `claims` has of the form h…: as many as `#s` is more than `#b`,
-- so that a slip from the range needs no counting.
--
-- A script does not roll back, so all of a part that can refuse comes before its first write; and the first write of all
-- is one that Redis refuses when its memory is full. Where a later part is refused the users of those before it find
-- what is held for them when they ask again.

local call, format, KEYS, ARGV = redis.call, string.format, KEYS, ARGV

-- Now, in milliseconds, as text: one moment for the whole call, asked for when it is needed. It has thirteen digits until
-- the year 2286, as an expiry has, so that text can be compared with text: making numbers of them costs more.
local at
local function look_at_the_clock()
  local time = call('TIME')
  at = format('%s%03d', time[1], time[2] / 1000)
end

-- By far the most frequent call: one user who has nothing yet. The same as below in the fewest steps, for a part whose
-- field `#f` says that it has no guard and is in `dirty` already. Whatever takes a part out of `dirty` takes the field
-- away too; its value is that of `#e`. Returns nil where there is more to it.
local function grab_one(claims, user)
  local terms = call('HMGET', claims, '#x', '#s', '#f', user)
  local slip, last = terms[2], terms[3]
  if not last or terms[4] or slip == last then return nil end
  if not at then look_at_the_clock() end
  if at >= terms[1] then return nil end
  call('HSET', claims, user, 'h' .. slip .. ':' .. at, '#s', format('%d', slip + 1))
  return slip
end

-- What follows is not even set up for a user who comes alone and wins.
if not ARGV[3] and ARGV[1] == '1' then
  local slip = grab_one(KEYS[1], ARGV[2])
  if slip then return at .. ';' .. slip end
end

local TRIES, TRIES_MS = 10, 60000
-- The same moment as a number.
local now
-- Fields of the terms, which are read before those of the users.
local TERMS = 5

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

-- The part is about to hold something: it goes into the queue, and its claims, which are the outbox now, stay until that
-- is empty.
local function mark(claims, dirty)
  call('ZADD', dirty, 'NX', at, claims:match(':claims:(.+)$'))
  call('PERSIST', claims)
end

-- The answers of a part for the `count` users from ARGV[first] on, whose digests stand from ARGV[digests] on.
local function grab(claims, slips, dirty, first, count, digests)
  local found = call('HMGET', claims, '#x', '#g', '#s', '#e', '#f', unpack(ARGV, first, first + count - 1))
  local expires, guard = tonumber(found[1]), found[2]
  local next_slip, last, is_marked = tonumber(found[3]), tonumber(found[4]), found[5]
  if not expires then return '-' end
  if not at then look_at_the_clock() end
  now = tonumber(at)

  local answers, takers, wanted, wrong = {}, {}, 0, {}
  for i = 1, count do
    local claim, user = found[TERMS + i], ARGV[first + i - 1]
    local refusal = not claim and guard and turned_away(claims, guard, user, digests and ARGV[digests + i - 1])
    if claim then
      answers[i] = claim
    elseif refusal then
      answers[i] = refusal
      if refusal == 'p' then wrong[#wrong + 1] = user end
    else
      wanted = wanted + 1
      takers[wanted] = i
    end
  end

  local free, from_list = 0, {}
  if wanted > 0 and now < expires then
    free = math.min(wanted, last - next_slip)
    if free < wanted then from_list = call('LRANGE', slips, 0, wanted - free - 1) end
  end
  local from_range, held_at, to_claims = free, ':' .. at, {}
  free = free + #from_list
  for n = 1, free do
    local i = takers[n]
    local slip = n <= from_range and format('%d', next_slip + n - 1) or from_list[n - from_range]
    to_claims[2 * n - 1], to_claims[2 * n] = ARGV[first + i - 1], 'h' .. slip .. held_at
    answers[i] = slip
  end
  if free > 0 then
    to_claims[2 * free + 1], to_claims[2 * free + 2] = '#s', format('%d', next_slip + from_range)
    if not is_marked then
      mark(claims, dirty)
      if not guard then to_claims[2 * free + 3], to_claims[2 * free + 4] = '#f', format('%d', last) end
    end
    call('HSET', claims, unpack(to_claims))
    if #from_list > 0 then
      call('HINCRBY', claims, '#b', -#from_list)
      call('LTRIM', slips, #from_list, -1)
    end
  end
  if free < wanted then
    local terms = call('HMGET', claims, '#n', '#c', '#a')
    local certain = terms[1] == terms[2] or terms[3] == 'redis'
    local none = (now < expires and 's' or 'e') .. (certain and '1' or '0')
    for n = free + 1, wanted do answers[takers[n]] = none end
  end
  for _, user in ipairs(wrong) do count_wrong(claims, user) end
  return table.concat(answers, ',')
end

local all, next_arg = {}, 1
for key = 1, #KEYS, 3 do
  local count, first = ARGV[next_arg], next_arg + 1
  local answers = count == '1' and grab_one(KEYS[key], ARGV[first])
  if answers then
    next_arg = first + 1
  else
    local users, has_digests = count:match('^(%d+)(p?)$')
    count = tonumber(users)
    local digests = has_digests == 'p' and first + count or nil
    answers = grab(KEYS[key], KEYS[key + 1], KEYS[key + 2], first, count, digests)
    next_arg = (digests or first) + count
  end
  all[#all + 1] = answers
end
if not at then look_at_the_clock() end
return at .. ';' .. table.concat(all, ';')
