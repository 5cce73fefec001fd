-- grab: takes a slip for each of one or more users, of one or more parts, in one round trip.
--
-- KEYS  per part
--       1  the part's hash
--       2  the list of its free slips
--       3  its partition's queue
--       4  its counts of wrong passphrases, if the parts are guarded
-- ARGV  1   'open': no part has a guard; 'guarded': each has one
--       per part
--       1   the number of users, at least one
--       2…  the users (none twice); if the parts are guarded, then as many digests of their passphrases, or ''
--
-- Returns one string: the parts, separated by ';'. Each is '-' if the part is not loaded, else one answer per user, in order, separated
-- by ','. `certain` is 1 if "no slip" can no longer change for them: every slip has a known decision, or the packet's grabs are answered
-- on the hot store's word. Times that are left are in milliseconds.
--   <slip>:<left>          a slip that is held for them from now on; so much is left until the packet expires
--   h<slip>:<left>         the slip that was held for them before, not known to be in the ledger; parked: then ':' and the reason
--   g<slip>:<amount>:<at>  their confirmed claim: the answer for ever, also after expiry
--   r                      refused: no recipient
--   n<start>:<left>        refused: not before this time, which is so far ahead
--   p, t<left>             refused: wrong passphrase, too many of these for so long
--   s<certain>             no slip: every one is taken
--   e<certain>:<expiry>    no slip: one went back to the sender, as happens once the packet has expired, which is then
--   c<certain>             no slip: the operator has closed the packet
--   x<certain>             no slip is free, and not every one is taken: the packet has expired, or its list was lost; `certain` counts if
--                          it has expired
--
-- The list expires with the packet, so it is the clock: without a list there is no slip.
--
-- Scripts do not roll back. So everything that can refuse a part comes before its first write, and Redis refuses that write when
-- its memory is full. Two things are found later: a damaged queue or list. Then the count is put right, and the script fails; a part that
-- is in the queue without a hold is taken out by tidy. If one part is refused, users before may have a hold by then; their next grab
-- finds it.
--
-- There is no line of flags: with one, a full memory would refuse the whole script, also what it only reads.

local call = redis.call

-- What the first hold of a part takes: the part comes into the queue, and Redis does not forget it. Returns false if the part is not
-- loaded; then it deletes the hash that the count has made.
local function begin_holds(part, queue, left, count)
  local expires = call('HGET', part, '$expires_at')
  if not expires then
    call('DEL', part)
    return false
  end
  -- The part's name is the end of its key.
  local add = {'ZADD', queue, 'NX', expires - left, part:match(':part:(.+)')}
  if type(redis.pcall(unpack(add))) == 'table' then
    -- The queue is damaged. The second time, the error ends the script.
    call('HINCRBY', part, '$held_count', -count)
    call(unpack(add))
  end
  call('PERSIST', part)
  return true
end

-- Why there is no slip. What the counts say becomes the part's word, unless its memory is full.
local function no_slip(part)
  local terms = call('HMGET', part, '$word', '$expires_at', '$ack_mode', '$slip_count', '$known_count', '$held_count')
  if terms[1] then return terms[1] end
  if not terms[2] then return '-' end
  local slip_count, known_count = tonumber(terms[4]), tonumber(terms[5])
  local certain = (terms[3] == 'redis' or known_count == slip_count) and '1' or '0'
  if known_count + terms[6] < slip_count then return 'x' .. certain end
  redis.pcall('HSET', part, '$word', 's' .. certain)
  return 's' .. certain
end

-- One user of a part without a guard, in half the commands of `grab` below. Unlike that, it gives a slip of a closed part whose list came
-- back alone. It bypasses no guard by that, and as after any rollback, the ledger says whose the slip is.
local function grab_one(part, free, queue, user)
  local answer = call('HGET', part, user)
  if answer then return answer end
  local left = call('PTTL', free)
  if left <= 0 then return call('HGET', part, '$word') or no_slip(part) end
  -- The first write.
  if call('HINCRBY', part, '$held_count', '1') == 1 and not begin_holds(part, queue, left, 1) then return '-' end
  local slip = redis.pcall('RPOP', free)
  if type(slip) == 'table' then
    -- The list is damaged. The second time, the error ends the script.
    call('HINCRBY', part, '$held_count', '-1')
    call('RPOP', free)
  end
  local hold = slip .. ':' .. left
  call('HSET', part, user, 'h' .. hold)
  return hold
end

-- Most calls have one user of one part, and need no more functions.
local is_guarded = ARGV[1] == 'guarded'
if not is_guarded and not ARGV[4] then return grab_one(KEYS[1], KEYS[2], KEYS[3], ARGV[3]) end

local TRIES_MAX, TRIES_MS = 10, 60000

-- The refusal of a digest that may be wrong, or nil. Wrong ones are counted in a key of its own, which Redis forgets a minute after the
-- first: the part does not grow or change by guesses. A missing passphrase is refused too, but it is no guess.
local function passphrase_refusal(tries, user, digest, passphrase)
  if digest == '' then return 'p' end
  local count = tonumber(call('HGET', tries, user)) or 0
  if count < TRIES_MAX then
    if digest == passphrase then return nil end
    call('HINCRBY', tries, user, '1')
  end
  if call('PTTL', tries) < 0 then call('PEXPIRE', tries, TRIES_MS) end
  if count < TRIES_MAX then return 'p' end
  return 't' .. math.max(call('PTTL', tries), 1)
end

-- A function that says why the guard of a part refuses a user, or nil. Of a closed part only the recipients count.
local function guard_of(part, tries, left, is_closed)
  local starts, expires, recipients, passphrase = unpack(call('HMGET', part, '$starts_at', '$expires_at', '$recipients', '$passphrase'))
  local early = starts and expires and left - (expires - starts) or 0
  return function(user, digest)
    if recipients and call('HEXISTS', part, '$recipient' .. user) == 0 then return 'r' end
    if is_closed then return nil end
    if early > 0 then return 'n' .. starts .. ':' .. early end
    if passphrase then return passphrase_refusal(tries, user, digest, passphrase) end
  end
end

-- The answers of a part for the `count` users from ARGV[first_arg] on.
local function grab(part, free, queue, tries, first_arg, count)
  local found = call('HMGET', part, '$word', unpack(ARGV, first_arg, first_arg + count - 1))
  local word, left = found[1], call('PTTL', free)
  local is_closed = word and word:sub(1, 1) == 'c'
  -- A list that a closed part still has is older than the close.
  if is_closed then left = 0 end
  local refuse = tries and guard_of(part, tries, left, is_closed)
  local answers, wanting = {}, {}
  for i = 1, count do
    answers[i] = found[1 + i] or refuse and refuse(ARGV[first_arg + i - 1], ARGV[first_arg + count + i - 1])
    if not answers[i] then wanting[#wanting + 1] = i end
  end
  local wanted, taken = #wanting, 0
  if left > 0 and wanted > 0 then
    -- The first write.
    local held = call('HINCRBY', part, '$held_count', wanted)
    if held == wanted and not begin_holds(part, queue, left, wanted) then return '-' end
    local slips = redis.pcall('RPOP', free, wanted)
    if slips.err then
      -- The list is damaged. The second time, the error ends the script.
      call('HINCRBY', part, '$held_count', -wanted)
      call('RPOP', free, wanted)
    end
    taken = #slips
    if taken < wanted then call('HINCRBY', part, '$held_count', taken - wanted) end
    local holds, suffix = {}, ':' .. left
    for n = 1, taken do
      local i, hold = wanting[n], slips[n] .. suffix
      answers[i], holds[2 * n - 1], holds[2 * n] = hold, ARGV[first_arg + i - 1], 'h' .. hold
    end
    call('HSET', part, unpack(holds))
  end
  if taken < wanted then
    word = word or no_slip(part)
    if word == '-' then return '-' end
    for n = taken + 1, wanted do answers[wanting[n]] = word end
  end
  return table.concat(answers, ',')
end

local parts, next_arg, size = {}, 2, is_guarded and 4 or 3
for k = 1, #KEYS, size do
  local part, free, queue, count = KEYS[k], KEYS[k + 1], KEYS[k + 2], tonumber(ARGV[next_arg])
  if count == 1 and not is_guarded then
    parts[#parts + 1] = grab_one(part, free, queue, ARGV[next_arg + 1])
  else
    parts[#parts + 1] = grab(part, free, queue, is_guarded and KEYS[k + 3], next_arg + 1, count)
  end
  next_arg = next_arg + 1 + (is_guarded and 2 or 1) * count
end
return table.concat(parts, ';')
