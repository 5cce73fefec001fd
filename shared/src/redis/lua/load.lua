-- load: makes a part ready to be grabbed, unless it is. Every slip is then exactly one of free, held, or known to be
-- fenced.
--
-- KEYS[1] claims  KEYS[2] slips  KEYS[3] held  KEYS[4] facts  KEYS[5] dirty
-- ARGV[1] the part's name  ARGV[2] its first slip  ARGV[3] the slip after its last  ARGV[4] its expiry
-- ARGV[5] when its claims are forgotten  ARGV[6] the ack mode  ARGV[7] the guard: 'r' if only recipients may grab, then
-- 'p' and the passphrase's digest if it has one  ARGV[8] the number of recipients, who follow
-- then the facts known so far: "<slip> <amount> <at> <owner>", owner '' for a refund
--
-- Returns 0 if it was loaded already, 1 if it is now, 2 if it is expired: an expired part is not loaded again.

local claims, slips, held, facts, dirty = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local part, first, last = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local expires, forget, ack, guard, recipients = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])

-- Bounds the arguments of one call below: Lua's stack holds some 8,000.
local CHUNK = 1000
-- Redis keeps a hash of up to 128 fields (512 from version 8 on), none of which is longer than 64 bytes, as a list that it
-- walks through. Claims that will be more than that are a table from the beginning.
local SMALL, LONG = 128, 65

if redis.call('HEXISTS', claims, '#x') == 1 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now >= expires then return 2 end

local fenced, owners, entries, count = {}, {}, {}, 0
local function entry(field, value)
  entries[#entries + 1] = field
  entries[#entries + 1] = value
end

for i = 9 + recipients, #ARGV do
  local slip, amount, at, owner = ARGV[i]:match('^(%d+) (%d+) (%d+) (.*)$')
  if tonumber(slip) >= first and tonumber(slip) < last and not fenced[slip] then
    fenced[slip], count = true, count + 1
  end
  if owner ~= '' then
    owners[owner] = true
    entry(owner, 'g' .. slip .. ':' .. amount .. ':' .. at)
  end
end

-- The outbox outlives the rest: what it holds stays held, unless a fact has overtaken it.
local outbox, taken, dropped = redis.call('HGETALL', held), {}, {}
for i = 1, #outbox, 2 do
  local slip, at, user = outbox[i], outbox[i + 1]:match('^(%d+) (%S+)')
  if fenced[slip] or owners[user] then
    dropped[#dropped + 1] = slip
  else
    taken[slip], owners[user] = true, true
    entry(user, 'h' .. slip .. ':' .. at)
  end
end

-- From here on writes, the first of which Redis refuses when its memory is full; `#x`, which says that the part is
-- loaded, comes last.
redis.call('HSET', claims, '#c', 0)
redis.call('DEL', claims, slips, facts)
redis.call('HSET', claims, '#c', last - first, '#n', count, '#a', ack, '#e', last)
if last - first > SMALL then redis.call('HSET', claims, '#w', string.rep('.', LONG)) end
if guard ~= '' then redis.call('HSET', claims, '#g', guard) end
if next(taken) then redis.call('ZADD', dirty, 'NX', now, part) end
for i = 9, 8 + recipients do entry('#r:' .. ARGV[i], '') end
for i = 1, #entries, CHUNK do redis.call('HSET', claims, unpack(entries, i, math.min(i + CHUNK - 1, #entries))) end

redis.call('SETBIT', facts, last - first, 0)
for slip in pairs(fenced) do redis.call('SETBIT', facts, slip - first, 1) end
for i = 1, #dropped do redis.call('HDEL', held, dropped[i]) end

if next(fenced) or next(taken) then
  local free = {}
  for slip = first, last - 1 do
    local name = string.format('%d', slip)
    if not fenced[name] and not taken[name] then free[#free + 1] = name end
  end
  for i = 1, #free, CHUNK do redis.call('RPUSH', slips, unpack(free, i, math.min(i + CHUNK - 1, #free))) end
  first = last
end
redis.call('HSET', claims, '#s', first)

redis.call('PEXPIREAT', slips, expires)
redis.call('PEXPIREAT', facts, forget)
redis.call('HSET', claims, '#x', string.format('%d', expires))
redis.call('PEXPIREAT', claims, forget)
return 1
