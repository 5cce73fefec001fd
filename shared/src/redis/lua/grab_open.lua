-- grab_open: grab.lua for nearly every grab of a rush. It takes a slip for one user of each of one or more parts, in one round trip,
-- and needs no other key. The frequent cases of open parts are all that it knows.
--
-- KEYS  the parts' hashes, no part twice
-- ARGV  a user for each
--
-- Returns one string: the time in milliseconds, or nothing if no answer needs it; then for each part ';' and the answer that grab.lua
-- has for its user, or '?': then only grab.lua has it
--
-- A part is open if it has `open_until`: no guard, a place in its queue, and the last millisecond before the expiry, followed by
-- `range_end`. As text, the time is smaller until the expiry. If the field begins with a letter, it begins with the answer to every loser.
-- After the expiry, only grab.lua says so itself.
--
-- It makes no table and no function of its own: `make bench ARGS="--only fast-path"` says what this script saves.

local call, sub = redis.call, string.sub
-- Times have 13 digits until the year 2286, so text compares with text, which costs less than numbers.
local TIME_LEN = 13
local at, answers = '', nil

for i = 1, #KEYS do
  local part, user = KEYS[i], ARGV[i]
  local found = call('HMGET', part, user, '$open_until', '$next_free')
  local answer, open_until, slip = found[1], found[2], found[3]
  if not open_until then
    answer = '?'
  elseif not answer and sub(open_until, 1, 1) == 's' then
    answer = sub(open_until, 1, TIME_LEN)
  elseif not answer then
    if at == '' then
      local time = call('TIME')
      local seconds, micros = time[1], time[2]
      -- Nine times out of ten the microseconds have six digits; the first three are the milliseconds.
      at = #micros == 6 and seconds .. sub(micros, 1, 3) or string.format('%s%03d', seconds, micros / 1000)
    end
    if at >= open_until then
      answer = '?'
    elseif slip ~= sub(open_until, TIME_LEN + 1) then
      call('HSET', part, user, 'h' .. slip .. ':' .. at, '$next_free', string.format('%d', slip + 1))
      answer = slip
    else
      local rest = call('HMGET', part, '$other_ranges', '$ack_mode', '$known_count', '$slip_count')
      local is_certain = rest[2] == 'redis' or rest[3] == rest[4]
      answer = rest[1] == '' and not is_certain and 's0' or '?'
    end
  end
  answers = answers and answers .. ';' .. answer or answer
end
return at .. ';' .. answers
