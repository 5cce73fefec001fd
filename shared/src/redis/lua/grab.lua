-- grab: takes a slip for each of one or more users, of one or more parts, in one round trip.
--
-- KEYS  per part; if each has one user, a part may come again for another one
--       1  the part's hash
--       2  its partition's queue
--       3  its counts of wrong passphrases, only if digests follow
-- ARGV  at least one user per part. If each has one, without a digest: one user per part; else per part
--       1   the number of users, with 'p' appended if digests follow
--       2…  the users (none twice), then as many digests of their passphrases, or ''
--
-- Returns one string: the time in milliseconds, or nothing if no answer needs it; then ';' and an answer for each part. It is '-' if
-- the part is not loaded, else one answer per user, in order, separated by ',':
--   <slip>                 a slip that is held for the user as of that time
--   h<slip>:<at>           the slip that was held for them before, not known to be in the ledger; parked: then ':' and the reason
--   g<slip>:<amount>:<at>  their confirmed claim: the answer for ever, also after expiry
--   r, n<start>            refused: no recipient, or not before this time
--   c0, c1                 the operator has closed the packet; 1 if "no slip" is certain, as below
--   p, t<ms>               refused: wrong passphrase, too many of these for another <ms>
--   s0, e0, e1             no slip: sold out, or expired; 1 if that is certain, because every slip has a known decision, or
--                          because the packet's grabs are answered on the hot store's word
--   s<expires>             no slip, for certain: sold out, and expired from that time on, which has twelve hexadecimal digits
--
-- A part's free slips begin at `next_free` and end before `range_end`; those of `other_ranges` follow. The holds in the hash are
-- the outbox. Their number is `next_free` less `hold_base`, so that a win counts itself.
--
-- Scripts do not roll back. So everything that can refuse a part comes before its first write, and Redis refuses that write when
-- its memory is full. If one part is refused, users before may have a hold by then; their next grab finds it.

local call, format, sub, KEYS, ARGV = redis.call, string.format, string.sub, KEYS, ARGV
local TRIES_MAX, TRIES_MS = 10, 60000

-- Now, in milliseconds, as text; nil until it is needed. Times have 13 digits until the year 2286, so text compares with text, which
-- costs less than numbers.
local TIME_LEN = 13
local at
-- The answers, by part, and the number of parts without one.
local all, unanswered = nil, #KEYS / 2
-- Whether each part has one user, and no number before the user.
local is_one_each = #ARGV * 2 == #KEYS

-- The fast path answers what the general path below would. It is for parts without a guard that are in their queue, as long as their
-- first range lasts, or while the last decision may still come. It is also for parts without a guard of which a loser has received a
-- certain "no"; after the expiry, only the general path says so itself. It makes no function, and for one user no table, of its own.
-- `make bench ARGS="--only fast-path"` says what that saves.
--
-- `open_until` exists in these parts only. It tells the last millisecond before the expiry and then `range_end`. As text, the time is
-- smaller until the expiry. If it begins with a letter, it begins with the answer to every loser.
if is_one_each then
  for i = 1, #ARGV do
    local part, user = KEYS[2 * i - 1], ARGV[i]
    local found = call('HMGET', part, user, '$open_until', '$next_free')
    local answer, open_until, slip = found[1], found[2], found[3]
    if open_until and not answer then
      if sub(open_until, 1, 1) == 's' then
        answer = sub(open_until, 1, TIME_LEN)
      else
        if not at then
          local time = call('TIME')
          local seconds, micros = time[1], time[2]
          -- Nine times out of ten the microseconds have six digits; the first three are the milliseconds.
          at = #micros == 6 and seconds .. sub(micros, 1, 3) or format('%s%03d', seconds, micros / 1000)
        end
        if at < open_until and slip ~= sub(open_until, TIME_LEN + 1) then
          call('HSET', part, user, 'h' .. slip .. ':' .. at, '$next_free', format('%d', slip + 1))
          answer = slip
        elseif at < open_until then
          local rest = call('HMGET', part, '$other_ranges', '$ack_mode', '$known_count', '$slip_count')
          local is_certain = rest[2] == 'redis' or rest[3] == rest[4]
          if rest[1] == '' and not is_certain then answer = 's0' end
        end
      end
    end
    if open_until and answer then
      if #ARGV == 1 then return (at or '') .. ';' .. answer end
      all, unanswered = all or {}, unanswered - 1
      all[i] = answer
    end
  end
  if unanswered == 0 then return (at or '') .. ';' .. table.concat(all, ';') end
end

all = all or {}
if not at then
  local time = call('TIME')
  at = format('%s%03d', time[1], time[2] / 1000)
end

-- What the guard answers a user, or nil. `to_all` is the answer to all recipients, whatever their passphrase, if there is one. It counts
-- a wrong passphrase in a key of its own, which Redis forgets after a minute: the part does not grow or change by guesses. A missing
-- passphrase is refused too, but it is no guess.
local function refusal(part, tries, guard, to_all, user, digest)
  if sub(guard, 1, 1) == 'r' and call('HEXISTS', part, '$recipient' .. user) == 0 then return 'r' end
  if to_all then return to_all end
  local wanted = guard:match('p(.*)')
  if not wanted then return nil end
  if not digest or digest == '' then return 'p' end
  local counted = call('HMGET', tries, '$tries_end', user)
  local past, count = counted[1], tonumber(counted[2]) or 0
  if not past or at >= past then past, count = nil, 0 end
  if count >= TRIES_MAX then return format('t%d', past - at) end
  if digest == wanted then return nil end
  if past then
    call('HINCRBY', tries, user, '1')
  else
    past = format('%d', at + TRIES_MS)
    call('HSET', tries, '$tries_end', past, user, '1')
    -- Redis forgets a key after its last millisecond.
    call('PEXPIREAT', tries, format('%d', past - 1))
  end
  return 'p'
end

-- The answers of a part for the `count` users from ARGV[first] on. Their digests begin at ARGV[digests].
local function grab(part, pending, tries, first, count, digests)
  -- Five terms, then what the part has of each user, which becomes their answer.
  local TERMS = 5
  local answers = call('HMGET', part, '$expires_at', '$guard', '$next_free', '$range_end', '$open_until', unpack(ARGV, first, first + count - 1))
  local expires, guard, slip, range_end, open_until = answers[1], answers[2], answers[3], answers[4], answers[5]
  if not expires then return '-' end

  -- The first grab from the start on takes the start out of the guard. If a later part of this script is refused, that may stay.
  local start = guard and sub(guard, -TIME_LEN - 1, -TIME_LEN - 1) == '@' and sub(guard, -TIME_LEN)
  if start and at >= start then
    guard, start = guard:match('(.-)p?@'), nil
    if guard == '' then
      guard = nil
      call('HDEL', part, '$guard')
    else
      call('HSET', part, '$guard', guard)
    end
  end
  local to_all = start and 'n' .. start
  if guard and sub(guard, -6) == 'closed' then
    local known = call('HMGET', part, '$known_count', '$slip_count', '$ack_mode')
    to_all = (known[1] == known[2] or known[3] == 'redis') and 'c1' or 'c0'
  end

  local is_open, held_at, changes, size = at < expires, ':' .. at, {}, 0
  local is_pending = open_until and sub(open_until, 1, 1) ~= 's'
  -- What is read if the first range does not suffice, whether another one became the first, and the answer to later losers.
  local rest, has_moved, no
  for i = 1, count do
    local user = ARGV[first + i - 1]
    local answer = answers[TERMS + i] or guard and refusal(part, tries, guard, to_all, user, digests and ARGV[digests + i - 1])
    if not answer and (slip == range_end or not is_open) then
      rest = rest or call('HMGET', part, '$other_ranges', '$hold_base', '$known_count', '$slip_count', '$ack_mode')
      local from, to, others = rest[1]:match('(%d+):(%d+);(.*)')
      if from and is_open then
        rest[1], rest[2] = others, format('%d', rest[2] + from - slip)
        slip, range_end, has_moved = from, to, true
      else
        local is_certain = rest[3] == rest[4] or rest[5] == 'redis'
        if is_certain and is_open then
          answer = format('s%012x', expires)
          no = answer .. range_end
        else
          answer = (is_open and 's' or 'e') .. (is_certain and '1' or '0')
        end
      end
    end
    if not answer then
      answer = slip
      changes[size + 1], changes[size + 2] = user, 'h' .. slip .. held_at
      slip, size = format('%d', slip + 1), size + 2
    end
    answers[TERMS + i] = answer
  end

  if size > 0 then
    -- The part becomes pending. Its hash, which is the outbox now, does not expire until that is empty. A damaged queue refuses this
    -- first write.
    if not is_pending then
      call('ZADD', pending, 'NX', at, part:match(':part:(.+)'))
      call('PERSIST', part)
    end
    if has_moved then call('HSET', part, '$range_end', range_end, '$other_ranges', rest[1], '$hold_base', rest[2]) end
    if not guard and (has_moved or not is_pending) then
      call('HSET', part, '$open_until', format('%d', expires - 1) .. range_end)
    end
    call('HSET', part, '$next_free', slip, unpack(changes))
  elseif no and no ~= open_until and not guard then
    -- When its memory is full, Redis refuses this. The answer stands.
    redis.pcall('HSET', part, '$open_until', no)
  end
  return table.concat(answers, ',', TERMS + 1)
end

local next_arg, next_key, i = 1, 1, 0
while next_arg <= #ARGV do
  i = i + 1
  local first, count, digests = next_arg, 1, nil
  if not is_one_each then
    local users, has_digests = ARGV[next_arg]:match('(%d+)(p?)')
    first, count = next_arg + 1, tonumber(users)
    digests = has_digests == 'p' and first + count
  end
  all[i] = all[i] or grab(KEYS[next_key], KEYS[next_key + 1], KEYS[next_key + 2], first, count, digests)
  next_arg, next_key = (digests or first) + count, next_key + (digests and 3 or 2)
end
return at .. ';' .. table.concat(all, ';')
