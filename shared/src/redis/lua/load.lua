-- load: makes a part ready for grabs: every slip is then either free or has a known decision. Of a part that is loaded, it only makes a
-- bitmap anew that Redis has lost. (A part that holds something is loaded: a hash with holds does not expire.)
--
-- KEYS  1   the part's hash
--       2   its bitmap of known decisions
-- ARGV  1   its first slip
--       2   the slip after its last
--       3   when Redis forgets it, in milliseconds
--       4   the number of fields that follow
--       5…  fields of the terms, each with its value; `expires_at` is among them
--       …   then the decisions known so far: a line "<slip> <amount> <at> <owner>" for each, owner '' for a refund
--
-- Returns
--   0  it is expired: an expired part is not loaded again
--   1  it is loaded, now or before

local call, format = redis.call, string.format
local part, known = KEYS[1], KEYS[2]
local first, past, forget, count = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

-- Values in one call: Lua's stack holds some 8,000.
local CHUNK = 1000

local fields, expires = {}, nil
for i = 5, 3 + 2 * count, 2 do
  if ARGV[i] == '$expires_at' then
    expires = ARGV[i + 1]
  else
    fields[#fields + 1], fields[#fields + 2] = ARGV[i], ARGV[i + 1]
  end
end
local is_decided, decided = {}, 0
for line in ARGV[5 + 2 * count]:gmatch('[^\n]+') do
  local slip, amount, at, owner = line:match('(%d+) (%d+) (%d+) (.*)')
  local number = tonumber(slip)
  if number >= first and number < past and not is_decided[number] then
    is_decided[number], decided = true, decided + 1
  end
  if owner ~= '' then fields[#fields + 1], fields[#fields + 2] = owner, 'g' .. slip .. ':' .. amount .. ':' .. at end
end

local function write_bitmap()
  -- One bit beyond the slips: the bitmap exists also without a decision.
  call('SETBIT', known, past - first, 0)
  for slip in pairs(is_decided) do call('SETBIT', known, slip - first, 1) end
end

if call('HEXISTS', part, '$expires_at') == 1 then
  if call('EXISTS', known) == 0 then
    call('HSET', part, '$known_count', format('%d', decided))
    write_bitmap()
    if call('HGET', part, '$held_count') == '0' then call('PEXPIREAT', known, forget) end
  end
  return 1
end
local time = call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) >= tonumber(expires) then return 0 end

-- The free slips, as ranges: the first one in fields of its own, from which a grab takes, the others in one text.
local ranges, from = {}, nil
for slip = first, past do
  local is_free = slip < past and not is_decided[slip]
  if is_free then
    from = from or slip
  elseif from then
    ranges[#ranges + 1] = format('%d:%d;', from, slip)
    from = nil
  end
end
local next_free, range_end = (table.remove(ranges, 1) or format('%d:%d;', past, past)):match('(%d+):(%d+)')

-- From here on writes, the first of which Redis refuses when its memory is full; `expires_at`, which says that the part is
-- loaded, comes last.
call('HSET', part, '$held_count', '0')
call('DEL', part, known)
call('HSET', part, '$slip_count', format('%d', past - first), '$known_count', format('%d', decided), '$held_count', '0', '$forget_at', forget)
call('HSET', part, '$next_free', next_free, '$range_end', range_end, '$other_ranges', table.concat(ranges))
for i = 1, #fields, CHUNK do call('HSET', part, unpack(fields, i, math.min(i + CHUNK - 1, #fields))) end
write_bitmap()
call('PEXPIREAT', known, forget)
call('HSET', part, '$expires_at', expires)
call('PEXPIREAT', part, forget)
return 1
