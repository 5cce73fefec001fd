#!lua flags=allow-oom
-- learn: tells a part what the ledger says of slips. The only way back from the ledger to the hot store: it confirms a
-- win, repairs a rollback, puts a slip back, empties the outbox and marks refunds. Executed twice, late, or in any order
-- it ends the same, since facts never change.
--
-- It runs when memory is full too: it mostly makes room, and a promise that is kept in the ledger must not wait in the
-- outbox for it.
--
-- KEYS[1] claims  KEYS[2] slips  KEYS[3] held  KEYS[4] facts  KEYS[5] dirty
-- ARGV[1] the part's name  ARGV[2] its first slip  ARGV[3] the slip after its last  ARGV[4] the number of facts
-- then the facts: "<slip> <amount> <at> <owner>", owner '' for a refund; a slip of another part says whose user it is
-- then the holds that were decided by them: "<slip> <user>". A part that is not loaded drops them from its outbox; one
-- that is, and has lost the hold, from its claims
--
-- Returns 0 if the part is not loaded (only its outbox is tidied then), 1 if it is, 2 if every slip's fact is known.

local claims, slips, held, facts, dirty = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local part, first, last, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local function holder(slip)
  local hold = redis.call('HGET', held, slip)
  return hold and hold:match('^%d+ (%S+)')
end

-- Takes back what `user` was given of a slip that is another's.
local function retract(slip, user)
  local claim = redis.call('HGET', claims, user)
  if claim and claim:match('^h' .. slip .. ':') then redis.call('HDEL', claims, user) end
end

-- Takes a slip out of the free ones, where it only is in repairs: a rollback had made it free again.
local function take_out(slip, expires)
  local range = redis.call('HMGET', claims, '#s', '#e')
  local next_slip, last = tonumber(range[1]), tonumber(range[2])
  if tonumber(slip) < next_slip then
    redis.call('LREM', slips, 1, slip)
    return
  end
  -- The range would have a hole: its other slips go to the list, before those that came back, the last one first.
  redis.call('HSET', claims, '#s', last)
  for other = last - 1, next_slip, -1 do
    if other ~= tonumber(slip) then redis.call('LPUSH', slips, string.format('%d', other)) end
  end
  redis.call('PEXPIREAT', slips, expires)
end

local terms = redis.call('HMGET', claims, '#x', '#c', '#e')
local expires = tonumber(terms[1])
local state = 0

if not expires then
  local fenced, owners = {}, {}
  for i = 5, 4 + count do
    local slip, owner = ARGV[i]:match('^(%d+) %d+ %d+ (.*)$')
    fenced[slip], owners[owner] = true, true
  end
  for i = 5 + count, #ARGV do
    local slip, user = ARGV[i]:match('^(%d+) (.+)$')
    if (fenced[slip] or owners[user]) and holder(slip) == user then redis.call('HDEL', held, slip) end
  end
else
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local owners, has_news = {}, false
  -- Nothing more is taken of an expired part: its free slips need not be told one by one that they are not.
  if now >= expires then redis.call('HSET', claims, '#s', terms[3]) end
  for i = 5, 4 + count do
    local slip, amount, at, owner = ARGV[i]:match('^(%d+) (%d+) (%d+) (.*)$')
    local place = tonumber(slip) - first
    local here = place >= 0 and tonumber(slip) < last
    owners[slip] = owner
    if here then
      local is_news = redis.call('SETBIT', facts, place, 1) == 0
      has_news = has_news or is_news
      local user = holder(slip)
      if user then
        -- Held although its fact was known: no history leads there, but what is wrong must not stay so for ever.
        redis.call('HDEL', held, slip)
        if user ~= owner then retract(slip, user) end
      elseif is_news then
        take_out(slip, terms[1])
      end
    end
    if owner ~= '' then
      local claim = redis.call('HGET', claims, owner)
      local other = claim and claim:match('^h(%d+):')
      if other and other ~= slip and holder(other) == owner then
        redis.call('HDEL', held, other)
        local exists = tonumber(other) >= first and tonumber(other) < last
        if exists and now < expires and redis.call('GETBIT', facts, other - first) == 0 then
          redis.call('RPUSH', slips, other)
          redis.call('PEXPIREAT', slips, terms[1])
        end
      end
      redis.call('HSET', claims, owner, 'g' .. slip .. ':' .. amount .. ':' .. at)
    end
  end
  for i = 5 + count, #ARGV do
    local slip, user = ARGV[i]:match('^(%d+) (.+)$')
    if owners[slip] and owners[slip] ~= user then retract(slip, user) end
  end
  -- Counted anew: whatever became of the bitmap, a part never takes itself for final too early.
  if has_news then redis.call('HSET', claims, '#n', redis.call('BITCOUNT', facts)) end
  state = redis.call('HGET', claims, '#n') == terms[2] and 2 or 1
end

if redis.call('EXISTS', held) == 0 then
  redis.call('ZREM', dirty, part)
  redis.call('HDEL', claims, '#f')
end
return state
