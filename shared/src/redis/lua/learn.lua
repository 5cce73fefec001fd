#!lua flags=allow-oom
-- learn: tells a part what the ledger says of slips. The only way back from the ledger to the hot store: it confirms a
-- win, repairs a rollback, puts a slip back, empties the outbox and marks refunds. Executed twice, late, or in any order
-- it ends the same, since facts never change.
--
-- It runs when memory is full too: it mostly makes room, and a promise that is kept in the ledger must not wait in the
-- outbox for it.
--
-- KEYS[1] claims  KEYS[2] facts  KEYS[3] dirty
-- ARGV[1] the part's name  ARGV[2] its first slip  ARGV[3] the slip after its last  ARGV[4] the number of facts
-- then the facts: "<slip> <amount> <at> <owner>", owner '' for a refund; a slip of another part says whose user it is
-- then the holds that were decided by them: "<slip> <user>"
--
-- Returns 0 if the part is not loaded (it holds nothing then), 1 if it is, 2 if every slip's fact is known.

local claims, facts, dirty = KEYS[1], KEYS[2], KEYS[3]
local part, first, last, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local terms = redis.call('HMGET', claims, '#x', '#e', '#s', '#b', '#c', '#n', '#k', '#f')
local expires = tonumber(terms[1])
if not expires then
  redis.call('ZREM', dirty, part)
  return 0
end
local end_of_range, next_slip = tonumber(terms[2]), tonumber(terms[3])
-- How many slips are held.
local held = next_slip - terms[4]

local function held_slip(claim)
  return claim and claim:match('^h(%d+):')
end

-- The whole outbox: slip -> for whom it is held.
local function find_holds()
  local holders, number, all = {}, 0, redis.call('HGETALL', claims)
  for i = 1, #all, 2 do
    local slip = all[i]:sub(1, 1) ~= '#' and held_slip(all[i + 1])
    if slip then holders[slip], number = all[i], number + 1 end
  end
  return holders, number
end

-- For whom a slip is held although the ledger gave it to another: looked for in repairs alone, and once.
local holders
local function holder(slip)
  if held == 0 then return nil end
  holders = holders or find_holds()
  return holders[slip]
end

-- Takes back what `user` was given of a slip that is another's, unless that was decided meanwhile; whether it was not.
local function retract(slip, user)
  if held_slip(redis.call('HGET', claims, user)) ~= slip then return false end
  redis.call('HDEL', claims, user)
  held = held - 1
  return true
end

-- The ranges of free slips after the first one, each {from, to}: read where one of them changes, which is in repairs.
local others
local function other_ranges()
  if not others then
    others = {}
    for from, to in redis.call('HGET', claims, '#l'):gmatch('(%d+):(%d+);') do
      others[#others + 1] = {tonumber(from), tonumber(to)}
    end
  end
  return others
end

-- Takes a slip out of the free ones, where it only is in repairs: a rollback had made it free again. Whatever its range has
-- on both sides stays free.
local function take_out(slip)
  local ranges = other_ranges()
  if next_slip <= slip and slip < end_of_range then
    if slip + 1 < end_of_range then table.insert(ranges, 1, {slip + 1, end_of_range}) end
    end_of_range = slip
    return
  end
  for place, range in ipairs(ranges) do
    local from, to = range[1], range[2]
    if from <= slip and slip < to then
      table.remove(ranges, place)
      if slip + 1 < to then table.insert(ranges, place, {slip + 1, to}) end
      if from < slip then table.insert(ranges, place, {from, slip}) end
      return
    end
  end
end

local function put_back(slip)
  local ranges = other_ranges()
  ranges[#ranges + 1] = {slip, slip + 1}
end

-- Without facts this is to tidy up: then nothing is believed but what is there.
if #ARGV == 4 then
  local _, number = find_holds()
  held = number
end

local time = redis.call('TIME')
local is_open = time[1] * 1000 + math.floor(time[2] / 1000) < expires
-- Nothing more is taken of an expired part: its free slips need not be told one by one that they are not.
if not is_open then next_slip, others = end_of_range, {} end

local owners, has_news = {}, false
for i = 5, 4 + count do
  local slip, amount, at, owner = ARGV[i]:match('^(%d+) (%d+) (%d+) (.*)$')
  local place = tonumber(slip) - first
  local hold = owner ~= '' and held_slip(redis.call('HGET', claims, owner))
  owners[slip] = owner
  if place >= 0 and tonumber(slip) < last then
    local is_news = redis.call('SETBIT', facts, place, 1) == 0
    has_news = has_news or is_news
    if is_news and hold ~= slip then
      local user = holder(slip)
      if not (user and retract(slip, user)) then take_out(tonumber(slip)) end
    end
  end
  if owner ~= '' then
    if hold then
      held = held - 1
      local other = tonumber(hold)
      local is_free = hold ~= slip and is_open and other >= first and other < last
      if is_free and redis.call('GETBIT', facts, other - first) == 0 then put_back(other) end
    end
    redis.call('HSET', claims, owner, 'g' .. slip .. ':' .. amount .. ':' .. at)
  end
end
for i = 5 + count, #ARGV do
  local slip, user = ARGV[i]:match('^(%d+) (.+)$')
  if owners[slip] and owners[slip] ~= user then retract(slip, user) end
end

-- Counted anew: whatever became of the bitmap, a part never takes itself for final too early.
local known = has_news and string.format('%d', redis.call('BITCOUNT', facts)) or terms[6]
redis.call('HSET', claims, '#s', next_slip, '#b', next_slip - held, '#n', known)
if others then
  local texts = {}
  for place, range in ipairs(others) do texts[place] = range[1] .. ':' .. range[2] .. ';' end
  redis.call('HSET', claims, '#e', end_of_range, '#l', table.concat(texts))
  -- Its value is that of `#e`. It stays as long as the part holds something: look counts the fields.
  if terms[8] then redis.call('HSET', claims, '#f', end_of_range) end
end
if held == 0 then
  local left = redis.call('ZREM', dirty, part) + redis.call('HDEL', claims, '#f')
  if left > 0 then
    redis.call('PEXPIREAT', facts, terms[7])
    redis.call('PEXPIREAT', claims, terms[7])
  end
end
return known == terms[5] and 2 or 1
