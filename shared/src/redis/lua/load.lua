-- load: makes a part ready for grabs, unless it is loaded. Every slip is then either free or has a known decision. (A part that
-- holds something is loaded: a hash with holds does not expire.)
--
-- KEYS  1   the part's hash
--       2   its bitmap of known decisions
-- ARGV  1   its first slip
--       2   the slip after its last
--       3   its expiry, in milliseconds
--       4   when Redis forgets it, in milliseconds
--       5   the acknowledgement mode
--       6   the guard, as the field of that name has it
--       7   the number of recipients
--       8…  the recipients
--       …   then the decisions known so far: a line "<slip> <amount> <at> <owner>" for each, owner '' for a refund
--
-- Returns
--   0  it is expired: an expired part is not loaded again
--   1  it is loaded, now or before

local part, known = KEYS[1], KEYS[2]
local first, past = tonumber(ARGV[1]), tonumber(ARGV[2])
local expires, forget, ack, guard, recipients = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

-- Fields in one call below: Lua's stack holds some 8,000 arguments.
local CHUNK = 1000
-- Redis keeps a hash of up to 128 short fields (512 from version 8 on) as a list, and walks through it for each field that it
-- reads. At 100 claims that is a third of a grab's cost. So the hash of a part with more slips than this is a table from the start,
-- which takes two and a half times the memory. A value longer than 64 bytes makes it one.
local SMALL, LONG = 32, 65

if redis.call('HEXISTS', part, '$expires_at') == 1 then return 1 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now >= expires then return 0 end

local is_decided, entries, count = {}, {}, 0
local function entry(field, value)
  entries[#entries + 1] = field
  entries[#entries + 1] = value
end
for line in ARGV[8 + recipients]:gmatch('[^\n]+') do
  local slip, amount, at, owner = line:match('(%d+) (%d+) (%d+) (.*)')
  if tonumber(slip) >= first and tonumber(slip) < past and not is_decided[slip] then
    is_decided[slip], count = true, count + 1
  end
  if owner ~= '' then entry(owner, 'g' .. slip .. ':' .. amount .. ':' .. at) end
end
for i = 8, 7 + recipients do entry('$recipient' .. ARGV[i], '') end

-- From here on writes, the first of which Redis refuses when its memory is full; `expires_at`, which says that the part is
-- loaded, comes last.
redis.call('HSET', part, '$slip_count', 0)
redis.call('DEL', part, known)
redis.call('HSET', part, '$slip_count', past - first, '$known_count', count, '$ack_mode', ack)
if past - first > SMALL then redis.call('HSET', part, '$padding', string.rep('.', LONG)) end
if guard ~= '' then redis.call('HSET', part, '$guard', guard) end
for i = 1, #entries, CHUNK do redis.call('HSET', part, unpack(entries, i, math.min(i + CHUNK - 1, #entries))) end

redis.call('SETBIT', known, past - first, 0)
for slip in pairs(is_decided) do redis.call('SETBIT', known, slip - first, 1) end

-- The free slips, as ranges: the first one in fields of its own, from which a grab takes, the others in one text.
local from, others = nil, {}
for slip = first, past do
  local is_free = slip < past and not is_decided[string.format('%d', slip)]
  if is_free and not from then
    from = slip
  elseif not is_free and from then
    others[#others + 1] = string.format('%d:%d;', from, slip)
    from = nil
  end
end
local next_slip, end_of_range = (table.remove(others, 1) or past .. ':' .. past):match('(%d+):(%d+)')
redis.call('HSET', part, '$next_free', next_slip, '$range_end', end_of_range, '$other_ranges', table.concat(others), '$hold_base', next_slip, '$forget_at', forget)

redis.call('PEXPIREAT', known, forget)
redis.call('HSET', part, '$expires_at', string.format('%d', expires))
redis.call('PEXPIREAT', part, forget)
return 1
