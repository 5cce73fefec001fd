#!lua flags=allow-oom
-- tidy: counts the holds of a part anew. If there are none, or the part is not loaded, it takes the part out of the queue.
--
-- KEYS  1   the part's hash
--       2   its partition's queue
-- ARGV  1   the part's name
--
-- Returns nothing

local call = redis.call
local part, queue, name = KEYS[1], KEYS[2], ARGV[1]

local all, has, held = call('HGETALL', part), {}, 0
for i = 1, #all, 2 do
  has[all[i]] = all[i + 1]
  if all[i]:sub(1, 1) ~= '#' and all[i + 1]:sub(1, 1) == 'h' then held = held + 1 end
end
local forget, word = has['$forget_at'], has['$word'] or ''
if forget then
  call('HSET', part, '$held_count', held)
  -- Not every slip is taken, whatever the word says.
  if word:sub(1, 1) == 's' and has['$known_count'] + held < tonumber(has['$slip_count']) then call('HDEL', part, '$word') end
end
if not forget or held == 0 then call('ZREM', queue, name) end
if forget and held == 0 then call('PEXPIREAT', part, forget) end
