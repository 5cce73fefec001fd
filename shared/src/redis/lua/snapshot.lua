#!lua flags=no-writes
-- snapshot: what grab would answer each user of an exhausted part, so that one call answers all who wait for it. It changes nothing.
--
-- KEYS  1   the part's hash
-- ARGV  1   'final' if only a final part is of use, else ''
--
-- Returns
--   {0}  each user needs a grab: the part is not loaded, has a free slip, or has a guard, which only grab checks
--   {1}  only a final part is of use, and this one, without a free slip, is not final
--   {2, others, left, user, claim, user, claim, ...}  the part is not final
--   {3, others, left}  it is final: every slip has a known decision. Its owners never change, so the caller may read them by HGETALL
--        afterwards. A script would keep Redis busy for four times as long
--        others                  the answer to users who have nothing. s is sold out, e is expired; then 1 if that is certain, or 0
--        left                    milliseconds to the expiry, or 0
--        h<slip>:<at>            a hold; parked: then ':' and the reason
--        g<slip>:<amount>:<at>   a confirmed claim

local part = KEYS[1]
local terms = redis.call('HMGET', part, '$expires_at', '$guard', '$next_free', '$range_end', '$known_count', '$slip_count', '$ack_mode', '$other_ranges')
if not terms[1] then return {0} end
local time = redis.call('TIME')
local left = math.max(terms[1] - time[1] * 1000 - math.floor(time[2] / 1000), 0)
if left > 0 and (terms[3] ~= terms[4] or terms[8] ~= '') then return {0} end
local is_final = terms[5] == terms[6]
if not is_final and ARGV[1] == 'final' then return {1} end
if terms[2] then return {0} end

local is_certain = is_final or terms[7] == 'redis'
local others = (left > 0 and 's' or 'e') .. (is_certain and '1' or '0')
local shown = {is_final and 3 or 2, others, string.format('%d', left)}
if is_final then return shown end
local all = redis.call('HGETALL', part)
for i = 1, #all, 2 do
  if all[i]:sub(1, 1) ~= '#' then
    shown[#shown + 1], shown[#shown + 2] = all[i], all[i + 1]
  end
end
return shown
