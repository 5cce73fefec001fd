-- grab: takes a slip for each of one or more users, of one or more parts, in one round trip.
--
-- KEYS  per part
--       1  the part's hash
--       2  its partition's queue
--       3  its counts of wrong passphrases
--       4  its bitmap of known decisions
-- ARGV  per part
--       1   the number of users, at least one
--       2…  the users (none twice), then as many digests of their passphrases, or ''
--
-- Returns one string: the time in milliseconds, then ';' and an answer for each part. It is '-' if the part is not loaded, else one
-- answer per user, in order, separated by ',':
--   h<slip>:<at>           the slip that was held for them before, not known to be in the ledger; parked: then ':' and the reason
--   g<slip>:<amount>:<at>  their confirmed claim: the answer for ever, also after expiry
--   r                      refused: no recipient
--   c0, c1                 the operator has closed the packet; 1 if "no slip" is certain, as below
--   n<start>               refused: not before this time
--   p, t<ms>               refused: wrong passphrase, too many of these for another <ms>
--   e0, e1                 no slip, because the packet has expired; 1 if that is certain, because every slip has a known decision, or
--                          because the packet's grabs are answered on the hot store's word
--   s0, s1                 no slip, because the packet is sold out
--   <slip>                 a slip that is held for them as of that time
--
-- Scripts do not roll back. So everything that can refuse a part comes before its first write, and Redis refuses that write when
-- its memory is full. If one part is refused, users before may have a hold by then; their next grab finds it.

local TRIES_MAX, TRIES_MS = 10, 60000

local call, format = redis.call, string.format
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local at = format('%d', now)

-- The refusal of a digest that may be wrong, or nil. Wrong ones are counted in a key of its own, which Redis forgets after a minute: the
-- part does not grow or change by guesses. A missing passphrase is refused too, but it is no guess.
local function passphrase_refusal(tries, user, digest, passphrase)
  if digest == '' then return 'p' end
  local counted = call('HMGET', tries, '$tries_end', user)
  local tries_end, count = tonumber(counted[1]), tonumber(counted[2]) or 0
  if not tries_end or now >= tries_end then tries_end, count = nil, 0 end
  if count >= TRIES_MAX then return format('t%d', tries_end - now) end
  if digest == passphrase then return nil end
  if tries_end then
    call('HINCRBY', tries, user, '1')
  else
    call('HSET', tries, '$tries_end', format('%d', now + TRIES_MS), user, '1')
    -- Redis forgets a key after its last millisecond.
    call('PEXPIREAT', tries, format('%d', now + TRIES_MS - 1))
  end
  return 'p'
end

-- The answers of a part for the `count` users from ARGV[first] on. It reads what only some need when the first of them needs it.
local function grab(part, pending, tries, known, first, count)
  local TERMS = 5
  local found = call(
    'HMGET', part, '$expires_at', '$guarded', '$next_free', '$range_end', '$held_count', unpack(ARGV, first, first + count - 1)
  )
  local expires, slip, range_end, held = found[1], found[3], found[4], found[5]
  if not expires then return '-' end
  local starts, closed, recipients, passphrase
  if found[2] then starts, closed, recipients, passphrase = unpack(call('HMGET', part, '$starts_at', '$closed', '$recipients', '$passphrase')) end

  local is_open, is_early = now < tonumber(expires), starts and now < tonumber(starts)
  local others, certain, has_moved
  local answers, holds, size = {}, {}, 0
  for i = 1, count do
    local user, answer = ARGV[first + i - 1], found[TERMS + i]
    if not answer and not certain and (closed or not is_open or slip == range_end) then
      local rest = call('HMGET', part, '$other_ranges', '$ack_mode', '$slip_count', '$known_count')
      others, certain = rest[1], (rest[2] == 'redis' or rest[3] == rest[4]) and '1' or '0'
    end
    if not answer and recipients and call('HEXISTS', part, '$recipient' .. user) == 0 then answer = 'r' end
    if not answer and closed then answer = 'c' .. certain end
    if not answer and is_early then answer = 'n' .. starts end
    if not answer and passphrase then answer = passphrase_refusal(tries, user, ARGV[first + count + i - 1], passphrase) end
    if not answer and not is_open then answer = 'e' .. certain end
    if not answer and slip == range_end then
      local from, to, rest = others:match('(%d+):(%d+);(.*)')
      if from then slip, range_end, others, has_moved = from, to, rest, true else answer = 's' .. certain end
    end
    if not answer then
      holds[size + 1], holds[size + 2], size = user, 'h' .. slip .. ':' .. at, size + 2
      answer, slip = slip, format('%d', slip + 1)
    end
    answers[i] = answer
  end

  if size > 0 then
    -- The part becomes pending. It does not expire until its outbox is empty. A damaged queue refuses this first write.
    if held == '0' then
      call('ZADD', pending, 'NX', at, part:match(':part:(.+)'))
      call('PERSIST', part)
      call('PERSIST', known)
    end
    if has_moved then call('HSET', part, '$range_end', range_end, '$other_ranges', others) end
    call('HSET', part, '$next_free', slip, '$held_count', format('%d', held + size / 2), unpack(holds))
  end
  return table.concat(answers, ',')
end

local parts, next_arg = {}, 1
for i = 1, #KEYS / 4 do
  local count = tonumber(ARGV[next_arg])
  parts[i] = grab(KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i], next_arg + 1, count)
  next_arg = next_arg + 1 + 2 * count
end
return at .. ';' .. table.concat(parts, ';')
