-- grab: takes a slip for each of one or more users, of one or more parts, in one round trip.
--
-- KEYS  per part (no part twice)
--       1  the part's hash: claims
--       2  its partition's queue: pending
-- ARGV  if each part has one user without a digest: one user per part; else per part
--       1   the number of users, with 'p' appended if digests follow
--       2…  the users (none twice), then as many digests of their passphrases, or ''
--
-- Returns one string: the time in milliseconds, then ';' and an answer for each part. It is '-' if the part is not loaded, else
-- one answer per user, in order, separated by ',':
--   <slip>                 a slip that is held for the user as of that time
--   h<slip>:<at>           the slip that was held for them before: not yet in the ledger; parked: then ':' and the reason
--   g<slip>:<amount>:<at>  their confirmed claim: the answer for ever, also after expiry
--   r, p, t<ms>            refused: no recipient, wrong passphrase, too many of these for another <ms>
--   s0, s1, e0, e1         no slip: sold out, or expired; 1 if that is certain, because every slip has a known decision, or
--                          because the packet's grabs are answered on the hot store's word
--
-- A part's free slips begin at `next_free` and end before `range_end`; those of `other_ranges` follow. The holds in `claims` are
-- the outbox. Their number is `next_free` less `hold_base`, so that a win counts itself.
--
-- Scripts do not roll back. So everything that can refuse a part comes before its first write, and Redis refuses that write when
-- its memory is full. If one part is refused, users of other parts may have a hold by then; their next grab finds it.

local call, format, sub, KEYS, ARGV = redis.call, string.format, string.sub, KEYS, ARGV

-- Now, in milliseconds, as text. Times have thirteen digits until the year 2286, so text compares with text, which costs less
-- than numbers. Nine times out of ten the microseconds have six digits; the first three are the milliseconds.
local time = call('TIME')
local seconds, micros = time[1], time[2]
local at = #micros == 6 and seconds .. sub(micros, 1, 3) or format('%s%03d', seconds, micros / 1000)

-- The fast path: what `grab` below does, in the fewest steps. It serves users who have something already, and users without
-- anything of a part without guard whose first range has a slip, or that has none at all. Other parts are left for `grab`, which is
-- not even set up otherwise: making a function costs as much as calling it. `make instructions` shows what the path saves.
--
-- `open_until` says that a part has no guard and is pending already: whatever takes a part out of the queue deletes the field. Its
-- value is the last millisecond before the expiry, then `range_end`, so that one field tells both. As text, the time is smaller until
-- the expiry.
local all, left, next_arg = nil, nil, 1
-- The number of digits of a time.
local TIME = 13
-- Whether each part has one user, and no number before the user.
local is_one_each = #ARGV * 2 == #KEYS
for key = 1, #KEYS, 2 do
  local claims, count, first = KEYS[key], '1', next_arg
  if not is_one_each then count, first = ARGV[next_arg], next_arg + 1 end
  local answer, users, digests = false, 1, nil
  if count == '1' then
    local user = ARGV[first]
    local terms = call('HMGET', claims, '$next_free', '$open_until', user)
    local slip, open, claim = terms[1], terms[2], terms[3]
    if claim then
      answer = (open or call('HEXISTS', claims, '$expires_at') == 1) and claim
    elseif not open then
      local rest = call('HMGET', claims, '$expires_at', '$guard', '$range_end')
      local expires, guard, last = rest[1], rest[2], rest[3]
      if expires and not guard and at < expires and slip ~= last then
        call('ZADD', KEYS[key + 1], 'NX', at, claims:match(':claims:(.+)$'))
        call('PERSIST', claims)
        call('HSET', claims, user, 'h' .. slip .. ':' .. at, '$next_free', format('%d', slip + 1),
          '$open_until', format('%013d', expires - 1) .. last)
        answer = slip
      end
    elseif at < open and slip ~= sub(open, TIME + 1) then
      call('HSET', claims, user, 'h' .. slip .. ':' .. at, '$next_free', format('%d', slip + 1))
      answer = slip
    else
      local rest = call('HMGET', claims, '$other_ranges', '$known_count', '$slip_count', '$ack_mode')
      if rest[1] == '' or at > open then
        answer = (at < open and 's' or 'e') .. ((rest[2] == rest[3] or rest[4] == 'redis') and '1' or '0')
      end
    end
  elseif sub(count, -1) == 'p' then
    users = tonumber(sub(count, 1, -2))
    digests = first + users
  else
    users = tonumber(count)
    -- Fields that are read before those of the users, whose answers take their place.
    local TERMS = 2
    local found = call('HMGET', claims, '$next_free', '$open_until', unpack(ARGV, first, first + users - 1))
    local open = found[2]
    if open and at < open then
      local slip, last = tonumber(found[1]), tonumber(sub(open, TIME + 1))
      local held_at = ':' .. at
      -- Room for two users, so that it need not grow for them. The second entry is the next free slip.
      local changes, size = {'$next_free', false, false, false, false, false}, 2
      for place = TERMS + 1, TERMS + users do
        if not found[place] then
          if slip == last then
            size = 0
            break
          end
          found[place] = format('%d', slip)
          changes[size + 1], changes[size + 2] = ARGV[first - TERMS - 1 + place], 'h' .. found[place] .. held_at
          slip, size = slip + 1, size + 2
        end
      end
      if size > 2 then
        changes[2] = format('%d', slip)
        call('HSET', claims, unpack(changes, 1, size))
      end
      answer = size > 0 and table.concat(found, ',', TERMS + 1)
    end
  end
  if answer and #KEYS == 2 then return at .. ';' .. answer end
  next_arg = (digests or first) + users
  all = all or {}
  all[#all + 1] = answer
  if not answer then
    left = left or {}
    left[#left + 1] =
      { place = #all, claims = claims, pending = KEYS[key + 1], first = first, users = users, digests = digests }
  end
end
if not left then return at .. ';' .. table.concat(all, ';') end

local TRIES, TRIES_MS = 10, 60000
-- The same time as a number.
local now = tonumber(at)
-- Fields of the terms, which are read before those of the users.
local TERMS = 5

-- The refusal of a user, if any. The caller counts a wrong passphrase.
local function refusal_of(claims, guard, user, digest)
  if guard:sub(1, 1) == 'r' and call('HEXISTS', claims, '$recipient' .. user) == 0 then return 'r' end
  local wanted = guard:match('p(.*)$')
  if not wanted then return nil end
  local tries = call('HGET', claims, '$wrong_tries' .. user)
  if tries then
    local count, since = tries:match('^(%d+):(%d+)$')
    local left = since + TRIES_MS - now
    if tonumber(count) >= TRIES and left > 0 then return 't' .. format('%d', left) end
  end
  if digest ~= wanted then return 'p' end
  return nil
end

local function count_wrong(claims, user)
  local tries = call('HGET', claims, '$wrong_tries' .. user)
  local count, since = 0, now
  if tries then
    local counted, from = tries:match('^(%d+):(%d+)$')
    if from + TRIES_MS > now then count, since = tonumber(counted), tonumber(from) end
  end
  call('HSET', claims, '$wrong_tries' .. user, format('%d:%d', count + 1, since))
end

-- Called before the part's first hold: it becomes pending, and its hash, which is the outbox now, does not expire until that is
-- empty.
local function mark(claims, pending)
  call('ZADD', pending, 'NX', at, claims:match(':claims:(.+)$'))
  call('PERSIST', claims)
end

-- The answers of a part for the `count` users from ARGV[first] on. Their digests begin at ARGV[digests].
local function grab(claims, pending, first, count, digests)
  local found = call('HMGET', claims, '$expires_at', '$guard', '$next_free', '$range_end', '$open_until', unpack(ARGV, first, first + count - 1))
  local expires, guard = tonumber(found[1]), found[2]
  local next_slip, last, is_marked = tonumber(found[3]), tonumber(found[4]), found[5]
  if not expires then return '-' end

  local answers, takers, wanted, wrong = {}, {}, 0, {}
  for i = 1, count do
    local claim, user = found[TERMS + i], ARGV[first + i - 1]
    local refusal = not claim and guard and refusal_of(claims, guard, user, digests and ARGV[digests + i - 1])
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

  local free, held_at, changes = now < expires and wanted or 0, ':' .. at, {}
  -- The other ranges, the place where what is left of them begins, and `hold_base`: read if the first range does not suffice.
  local others, place, base
  for n = 1, free do
    if next_slip == last then
      if not others then
        local left = call('HMGET', claims, '$other_ranges', '$hold_base')
        others, place, base = left[1], 1, tonumber(left[2])
      end
      local from, to, next_place = others:match('^(%d+):(%d+);()', place)
      if not from then
        free = n - 1
        break
      end
      base, place = base + from - next_slip, next_place
      next_slip, last = tonumber(from), tonumber(to)
    end
    local i, slip = takers[n], format('%d', next_slip)
    next_slip = next_slip + 1
    changes[2 * n - 1], changes[2 * n] = ARGV[first + i - 1], 'h' .. slip .. held_at
    answers[i] = slip
  end
  if free > 0 then
    changes[2 * free + 1], changes[2 * free + 2] = '$next_free', format('%d', next_slip)
    if not is_marked then mark(claims, pending) end
    if others or not is_marked then
      local function change(field, value) changes[#changes + 1], changes[#changes + 2] = field, value end
      if not guard then change('$open_until', format('%013d%d', expires - 1, last)) end
      if others then
        change('$range_end', format('%d', last))
        change('$hold_base', format('%d', base))
        change('$other_ranges', sub(others, place))
      end
    end
    call('HSET', claims, unpack(changes))
  end
  if free < wanted then
    local terms = call('HMGET', claims, '$known_count', '$slip_count', '$ack_mode')
    local certain = terms[1] == terms[2] or terms[3] == 'redis'
    local none = (now < expires and 's' or 'e') .. (certain and '1' or '0')
    for n = free + 1, wanted do answers[takers[n]] = none end
  end
  for _, user in ipairs(wrong) do count_wrong(claims, user) end
  return table.concat(answers, ',')
end

for _, part in ipairs(left) do
  all[part.place] = grab(part.claims, part.pending, part.first, part.users, part.digests)
end
return at .. ';' .. table.concat(all, ';')
