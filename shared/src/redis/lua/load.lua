-- load: makes a part ready for grabs: every slip is then free, held, or has a known decision. If a loaded part lacks its bitmap or its
-- list of free slips, it makes both anew, and counts holds and decisions anew. It does not trust a bitmap that is left: that may have bits
-- of claims that the hash has lost. A part with holds stays in the queue, or out of it, as it is.
--
-- KEYS  1   the part's hash
--       2   the list of its free slips
--       3   its bitmap of known decisions
-- ARGV  1   its first slip
--       2   the slip after its last
--       3   when the packet expires, in milliseconds
--       4   when Redis forgets the part, in milliseconds
--       5   '1' if the operator has closed the packet, else ''; unread if nothing is to be made
--       6   the number of fields that follow
--       7…  fields of the terms, each with its value
--       …   then the decisions known so far: a line "<slip> <amount> <at> <owner>" for each, owner '' for a refund
--
-- Returns
--   0  it is expired: an expired part is not loaded again
--   1  it is loaded, now or before

local call = redis.call
local part, free, known = KEYS[1], KEYS[2], KEYS[3]
local first, past, expires, forget = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local last_value = 6 + 2 * tonumber(ARGV[6])

-- Values in one call: Lua's stack holds some 8,000, and the largest part has 6,250 slips. Even, since fields come in pairs.
local CHUNK = 7000

local is_loaded = call('HEXISTS', part, '$expires_at') == 1
-- A part with a word may rightly have no list.
if is_loaded and call('EXISTS', known) == 1 and (call('PTTL', free) > 0 or call('HEXISTS', part, '$word') == 1) then return 1 end

-- A probe: only Redis knows whether the expiry is past, and then it deletes the list at once. This is also the first write, which it
-- refuses when its memory is full. The list is made anew below.
call('RPUSH', free, '0')
call('PEXPIREAT', free, expires)
if call('EXISTS', free) == 0 then return 0 end
-- What the bitmap knows and the hash cannot answer for is no knowledge: the bits come from the decisions below and the hash's claims.
call('DEL', free, known)

local fields, is_refunded = {}, false
if not is_loaded then
  call('DEL', part)
  for i = 7, last_value do fields[#fields + 1] = ARGV[i] end
  for _, term in ipairs({'$expires_at', expires, '$forget_at', forget, '$slip_count', past - first}) do fields[#fields + 1] = term end
end
local function is_here(slip) return slip >= first and slip < past end
local function decided(slip)
  if is_here(slip) then call('SETBIT', known, slip - first, 1) end
end
-- One bit beyond the slips: the bitmap exists also without a decision.
call('SETBIT', known, past - first, 0)
for line in ARGV[last_value + 1]:gmatch('[^\n]+') do
  local slip, amount, at, owner = line:match('(%d+) (%d+) (%d+) (.*)')
  decided(tonumber(slip))
  if owner == '' then is_refunded = true else fields[#fields + 1], fields[#fields + 2] = owner, 'g' .. slip .. ':' .. amount .. ':' .. at end
end
for i = 1, #fields, CHUNK do call('HSET', part, unpack(fields, i, math.min(i + CHUNK - 1, #fields))) end
-- What users of a loaded part have. The loader may have read the ledger before some of these claims. A hold gives way to a decision.
local holds, is_held, held = {}, {}, 0
if is_loaded then
  local all = call('HGETALL', part)
  for i = 1, #all, 2 do
    local kind, slip = all[i + 1]:match('^([gh])(%d+):')
    if all[i]:sub(1, 1) == '#' then kind = nil end
    if kind == 'g' then decided(tonumber(slip)) end
    if kind == 'h' then holds[all[i]] = tonumber(slip) end
  end
end
local bits = call('GET', known)
local function is_known(slip)
  local place = slip - first
  return math.floor(bits:byte(math.floor(place / 8) + 1) / 2 ^ (7 - place % 8)) % 2 == 1
end
for user, slip in pairs(holds) do
  if is_here(slip) and is_known(slip) then
    call('HDEL', part, user)
  else
    is_held[slip], held = true, held + 1
  end
end

local known_count = call('BITCOUNT', known)
call('HSET', part, '$held_count', held, '$known_count', known_count)
call('PEXPIREAT', known, forget)
if held == 0 then call('PEXPIREAT', part, forget) end
local is_final = known_count == past - first
local ack, word = unpack(call('HMGET', part, '$ack_mode', '$word'))
local is_closed = ARGV[5] == '1' or word and word:sub(1, 1) == 'c'
local certain = (is_final or ack == 'redis') and '1' or '0'
if is_closed then
  word = 'c' .. certain
elseif is_final then
  word = is_refunded and 'e1:' .. expires or 's1'
end
if is_closed or is_final then
  call('HSET', part, '$word', word)
  return 1
end
-- The last of the list is the next to be taken.
local slips = {}
for slip = past - 1, first, -1 do
  if not is_held[slip] and not is_known(slip) then slips[#slips + 1] = slip end
end
for i = 1, #slips, CHUNK do call('RPUSH', free, unpack(slips, i, math.min(i + CHUNK - 1, #slips))) end
call('PEXPIREAT', free, expires)
-- What the lost bitmap knew may be free after all. If no slip is, the next grab writes the word again.
if word and word:sub(1, 1) == 's' then call('HDEL', part, '$word') end
return 1
