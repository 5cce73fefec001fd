#!lua flags=allow-oom
-- reconcile: applies the ledger's slip decisions to a part. It is the way back from the ledger to a loaded part. It confirms a win, repairs
-- a rollback, puts a slip back, empties the outbox and marks refunds. Executed twice, late, or in any order it ends the same, since
-- decisions never change.
--
-- It also runs when memory is full: it mostly makes room, and a promise that the ledger keeps must not wait in the outbox.
--
-- KEYS  1   the part's hash
--       2   the list of its free slips
--       3   its bitmap of known decisions
--       4   its partition's queue
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

local call = redis.call
local part, free, known, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, first, past, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local expires, forget, slip_count, old_known_count, held, ack, word =
  unpack(call('HMGET', part, '$expires_at', '$forget_at', '$slip_count', '$known_count', '$held_count', '$ack_mode', '$word'))
if not expires then
  call('ZREM', queue, name)
  return 0
end
local is_closed = word and word:sub(1, 1) == 'c'
-- A bitmap that Redis has lost stays lost: with some of its bits alone, views would leave out claims.
local has_bitmap = call('EXISTS', known) == 1

-- What the part has of each user that comes up, with the changes of this call; false: nothing.
local has, changed = {}, {}
local function entry(user)
  if has[user] == nil then has[user] = call('HGET', part, user) end
  return has[user]
end
local function set(user, value)
  has[user], changed[user] = value, true
end

local decided, news, is_refund = {}, 0, false
for i = 5, 4 + count do
  local slip, amount, at, owner = ARGV[i]:match('(%d+) (%d+) (%d+) (.*)')
  local number, own_entry = tonumber(slip), owner ~= '' and entry(owner)
  local own_hold = own_entry and own_entry:match('^h(%d+):')
  if number >= first and number < past then
    -- What the hash has already is no news, though the bitmap may have lost it.
    local is_new = not (own_entry and own_entry:match('^g(%d+):') == slip)
    local was_known = has_bitmap and call('SETBIT', known, number - first, 1) == 1
    if is_new and not was_known then news = news + 1 end
    decided[number] = true
    -- A rollback may have made it free. Then it was among the next to be taken, so the search begins at the tail.
    if own_hold ~= slip then call('LREM', free, '-1', slip) end
  end
  if own_hold then
    held = held - 1
    local other = tonumber(own_hold)
    local is_other = own_hold ~= slip and other >= first and other < past and not decided[other]
    if is_other and not is_closed and call('GETBIT', known, other - first) == 0 then
      call('LPUSH', free, own_hold)
      call('PEXPIREAT', free, expires)
    end
  end
  if owner == '' then is_refund = true else set(owner, 'g' .. slip .. ':' .. amount .. ':' .. at) end
end
for i = 5 + count, #ARGV do
  local slip, user = ARGV[i]:match('(%d+) (.+)')
  if (entry(user) or ''):match('^h(%d+):') == slip then
    set(user, false)
    held = held - 1
  end
end

-- The smaller count is right if the hash or the bitmap alone was rolled back: a part never counts as final too early. Without a bitmap it is
-- 0. Then no word stays that says the part is full, and the loser after the last slip has bitmap and list made anew.
local known_count = math.min(call('BITCOUNT', known), old_known_count + news)
local is_final = known_count == tonumber(slip_count)
local fields = {'$held_count', held, '$known_count', known_count}
local certain = (is_final or ack == 'redis') and '1' or '0'
if is_closed then
  word = 'c' .. certain
elseif is_refund or word and word:sub(1, 1) == 'e' then
  word = 'e' .. certain .. ':' .. expires
elseif is_final then
  word = 's1'
elseif word and held + known_count < tonumber(slip_count) then
  -- A slip is free again, or lost.
  call('HDEL', part, '$word')
  word = nil
end
if word then fields[5], fields[6] = '$word', word end
for user in pairs(changed) do
  if has[user] then
    fields[#fields + 1], fields[#fields + 2] = user, has[user]
  else
    call('HDEL', part, user)
  end
end
call('HSET', part, unpack(fields))
if tonumber(held) == 0 then
  call('ZREM', queue, name)
  call('PEXPIREAT', part, forget)
end
return is_final and 2 or 1
