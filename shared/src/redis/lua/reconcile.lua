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
--       …   then the holds whose slip one of these decisions gives to another user or back: "<slip> <user>"
--
-- Returns
--   0  the part is not loaded: it was only taken out of the queue
--   1  it is loaded
--   2  it is loaded, and every slip has a known decision

local call, format, sub, ARGV = redis.call, string.format, string.sub, ARGV
local part, known, pending = KEYS[1], KEYS[2], KEYS[3]
local name, first, past, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- Fields of the terms, which are read before those of the owners.
local TERMS = 5
local fields, slips, confirmed = {'$expires_at', '$next_free', '$hold_base', '$slip_count', '$forget_at'}, {}, {}
for i = 1, count do
  local slip, amount, at, owner = ARGV[4 + i]:match('(%d+) (%d+) (%d+) (.*)')
  slips[i], fields[TERMS + i] = slip, owner
  confirmed[i] = 'g' .. slip .. ':' .. amount .. ':' .. at
end
local terms = call('HMGET', part, unpack(fields))
if not terms[1] then
  call('ZREM', pending, name)
  return 0
end
-- The next free slip, and how many are held.
local next_slip = tonumber(terms[2])
local held = next_slip - terms[3]

-- The fast path: nearly every decision confirms the hold of its owner. Others are left for the functions below, which are not
-- even set up otherwise: making a function costs as much as calling it.
local changes, has_news, left = {}, false, nil
for i = 1, count do
  local slip, owner, claim = slips[i], fields[TERMS + i], terms[TERMS + i]
  local place, number = slip - first, #changes
  -- As text: Redis formats a number from Lua as a fraction, which costs more.
  if claim and sub(claim, 1, #slip + 2) == 'h' .. slip .. ':'
    and place >= 0 and place < past - first and call('SETBIT', known, format('%d', place), '1') == 0
  then
    changes[number + 1], changes[number + 2] = owner, confirmed[i]
    held, has_news = held - 1, true
  else
    left = left or {}
    left[#left + 1] = i
  end
end

-- A call without decisions tidies up: it counts the holds that exist, and trusts no counter.
local is_tidying = #ARGV == 4
if left or #ARGV > 4 + count or is_tidying then
  if has_news then call('HSET', part, unpack(changes)) end
  local rest = call('HMGET', part, '$range_end', '$open_until')
  local end_of_range = tonumber(rest[1])

  local function held_slip(claim)
    return claim and claim:match('^h(%d+):')
  end

  -- The whole outbox: slip -> the user that it is held for.
  local function find_holds()
    local holders, number, all = {}, 0, call('HGETALL', part)
    for i = 1, #all, 2 do
      local slip = all[i]:sub(1, 1) ~= '#' and held_slip(all[i + 1])
      if slip then holders[slip], number = all[i], number + 1 end
    end
    return holders, number
  end

  -- The user that a slip is held for although the ledger gave it to another. Only repairs look for it, once.
  local holders
  local function holder(slip)
    if held == 0 then return nil end
    holders = holders or find_holds()
    return holders[slip]
  end

  -- Takes a hold of `slip` from `user`, whose slip it is not. Returns false if they do not hold it any more.
  local function retract(slip, user)
    if held_slip(call('HGET', part, user)) ~= slip then return false end
    call('HDEL', part, user)
    held = held - 1
    return true
  end

  -- The ranges of free slips after the first one, each {from, to}. Only repairs change them, so only repairs read them.
  local others
  local function other_ranges()
    if not others then
      others = {}
      for from, to in call('HGET', part, '$other_ranges'):gmatch('(%d+):(%d+);') do
        others[#others + 1] = {tonumber(from), tonumber(to)}
      end
    end
    return others
  end

  -- Takes a slip out of the free ones. Only repairs need that: a rollback had made it free again. The slips on both sides of it
  -- stay free.
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

  if is_tidying then
    local _, number = find_holds()
    held = number
  end

  local time = call('TIME')
  local is_open = time[1] * 1000 + math.floor(time[2] / 1000) < tonumber(terms[1])
  -- No slip of an expired part is taken any more: all free slips go at once.
  if not is_open then next_slip, others = end_of_range, {} end

  for _, i in ipairs(left or {}) do
    local slip, owner = slips[i], fields[TERMS + i]
    local number, place = tonumber(slip), slip - first
    local hold = owner ~= '' and held_slip(call('HGET', part, owner))
    if place >= 0 and number < past then
      local is_news = call('SETBIT', known, place, 1) == 0
      has_news = has_news or is_news
      -- If it is news, it was not held for its owner: that hold took the fast path.
      if is_news then
        local user = holder(slip)
        if not (user and retract(slip, user)) then take_out(number) end
      end
    end
    if owner ~= '' then
      if hold then
        held = held - 1
        local other = tonumber(hold)
        local is_free = hold ~= slip and is_open and other >= first and other < past
        if is_free and call('GETBIT', known, other - first) == 0 then put_back(other) end
      end
      call('HSET', part, owner, confirmed[i])
    end
  end
  for i = 5 + count, #ARGV do
    local slip, user = ARGV[i]:match('(%d+) (.+)')
    retract(slip, user)
  end

  changes = {'$next_free', format('%d', next_slip)}
  if others then
    local texts = {}
    for place, range in ipairs(others) do texts[place] = range[1] .. ':' .. range[2] .. ';' end
    call('HSET', part, '$range_end', end_of_range, '$other_ranges', table.concat(texts))
    -- After a time, of 13 digits, `open_until` has the same, and stays while the part holds something: view counts the fields.
    local open_until = rest[2]
    if open_until and sub(open_until, 1, 1) == 's' then
      -- A certain "no" goes, because a slip may be free again. The next grab makes sure that the part is in its queue.
      call('HDEL', part, '$open_until')
    elseif open_until then
      call('HSET', part, '$open_until', sub(open_until, 1, 13) .. end_of_range)
    end
  end
end

-- Counted again: even with a damaged bitmap, a part never counts as final too early.
local known_count = has_news and format('%d', call('BITCOUNT', known)) or call('HGET', part, '$known_count')
local number = #changes
changes[number + 1], changes[number + 2] = '$hold_base', format('%d', next_slip - held)
changes[number + 3], changes[number + 4] = '$known_count', known_count
call('HSET', part, unpack(changes))
if held == 0 then
  call('ZREM', pending, name)
  call('HDEL', part, '$open_until')
  call('PEXPIREAT', known, terms[5])
  call('PEXPIREAT', part, terms[5])
end
return known_count == terms[4] and 2 or 1
