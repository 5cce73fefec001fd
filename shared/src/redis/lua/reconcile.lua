#!lua flags=allow-oom
-- reconcile: applies the ledger's slip decisions to a part. It is the only way back from the ledger to the hot store. It confirms a
-- win, repairs a rollback, puts a slip back, empties the outbox and marks refunds. Executed twice, late, or in any order it ends
-- the same, since decisions never change.
--
-- It also runs when memory is full: it mostly makes room, and a promise that the ledger keeps must not wait in the outbox.
--
-- KEYS  1   the part's hash
--       2   its bitmap of known decisions
--       3   its partition's queue
-- ARGV  1   the part's name
--       2   its first slip
--       3   the slip after its last
--       4   the number of decisions
--       5…  the decisions: "<slip> <amount> <at> <owner>", owner '' for a refund; a slip of another part tells what its owner has
--       …   then the holds whose slip one of these decisions gives to another user or back: "<slip> <user>"; without decisions,
--           those of users who may not have their slip
--       If there are neither, the call tidies up: it counts the holds that exist, and trusts no counter.
--
-- Returns
--   0  the part is not loaded: it was only taken out of the queue
--   1  it is loaded
--   2  it is loaded, and every slip has a known decision

local call, format = redis.call, string.format
local part, known, pending = KEYS[1], KEYS[2], KEYS[3]
local name, first, past, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local terms = call('HMGET', part, '$expires_at', '$next_free', '$range_end', '$other_ranges', '$held_count', '$slip_count', '$known_count', '$forget_at')
if not terms[1] then
  call('ZREM', pending, name)
  return 0
end
local held, slips, forget, news = tonumber(terms[5]), terms[6], terms[8], 0
local time = call('TIME')
local is_open = time[1] * 1000 + math.floor(time[2] / 1000) < tonumber(terms[1])
-- A bitmap that Redis has lost stays lost until the expiry: with some of its bits alone, views would leave out claims.
local has_bitmap = not is_open or call('EXISTS', known) == 1

-- The ranges of free slips, each {from, to}. No slip of an expired part is taken any more: all free slips go at once.
local ranges = {}
if is_open then
  for from, to in (terms[2] .. ':' .. terms[3] .. ';' .. terms[4]):gmatch('(%d+):(%d+);') do
    if from ~= to then ranges[#ranges + 1] = {tonumber(from), tonumber(to)} end
  end
end

-- Takes a slip out of the free ones, which a rollback had made free again. The slips on both sides of it stay free.
local function take_out(slip)
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

-- What the part has of each user that comes up, with the changes of this call; false: nothing.
local has, changed = {}, {}
local function entry(user)
  if has[user] == nil then has[user] = call('HGET', part, user) end
  return has[user]
end
local function set(user, value)
  has[user], changed[user] = value, true
end

local function held_slip(value)
  return value and value:match('^h(%d+):')
end

-- The outbox: slip -> the user that it is held for; and how many they are. Only repairs look for it, once.
local holders, holds
local function find_holds()
  holders, holds = {}, 0
  local all = call('HGETALL', part)
  for i = 1, #all, 2 do
    local slip = all[i]:sub(1, 1) ~= '#' and held_slip(all[i + 1])
    if slip then holders[slip], holds = all[i], holds + 1 end
  end
end

local function holder(slip)
  if not holders and held > 0 then find_holds() end
  return holders and holders[slip]
end

-- Takes a hold of `slip` from `user`, whose slip it is not. Returns false if they do not hold it any more.
local function retract(slip, user)
  if held_slip(entry(user)) ~= slip then return false end
  set(user, false)
  held = held - 1
  return true
end

for i = 5, 4 + count do
  local slip, amount, at, owner = ARGV[i]:match('(%d+) (%d+) (%d+) (.*)')
  local number, own_hold = tonumber(slip), owner ~= '' and held_slip(entry(owner))
  local is_here = number >= first and number < past
  if is_here and not (has_bitmap and call('SETBIT', known, number - first, 1) == 1) then
    news = news + 1
    local user = own_hold ~= slip and holder(slip)
    -- It was held for a user who does not get it, or it was free.
    if own_hold ~= slip and not (user and retract(slip, user)) then take_out(number) end
  end
  if own_hold then
    held = held - 1
    local other = tonumber(own_hold)
    local is_free = own_hold ~= slip and is_open and other >= first and other < past
    if is_free and call('GETBIT', known, other - first) == 0 then ranges[#ranges + 1] = {other, other + 1} end
  end
  if owner ~= '' then set(owner, 'g' .. slip .. ':' .. amount .. ':' .. at) end
end
for i = 5 + count, #ARGV do
  local slip, user = ARGV[i]:match('(%d+) (.+)')
  local number, is_free = tonumber(slip), retract(slip, user) and count == 0 and is_open
  if is_free and call('GETBIT', known, number - first) == 0 then ranges[#ranges + 1] = {number, number + 1} end
end
if #ARGV == 4 then
  find_holds()
  held = holds
end

-- The smaller count is right if the hash or the bitmap alone was rolled back: a part never counts as final too early.
local known_count = format('%d', math.min(call('BITCOUNT', known), terms[7] + news))
local next_range, others = table.remove(ranges, 1) or {past, past}, {}
for place, range in ipairs(ranges) do others[place] = format('%d:%d;', range[1], range[2]) end
local fields = {
  '$held_count', format('%d', held), '$known_count', known_count, '$next_free', format('%d', next_range[1]), '$range_end',
  format('%d', next_range[2]), '$other_ranges', table.concat(others),
}
for user in pairs(changed) do
  if has[user] then
    fields[#fields + 1], fields[#fields + 2] = user, has[user]
  else
    call('HDEL', part, user)
  end
end
call('HSET', part, unpack(fields))
if held == 0 then
  call('ZREM', pending, name)
  call('PEXPIREAT', known, forget)
  call('PEXPIREAT', part, forget)
end
return known_count == slips and 2 or 1
