-- mend: deletes keys of a part that have a value of the wrong type, and puts a part that holds something back into its queue.
-- Nothing of the engine is lost: it never changes the type of a key. So another program has replaced what was there.
--
-- KEYS  1   the part's hash
--       2   its bitmap of known decisions
--       3   its hash of tries
--       4   its load lease
--       5   its help lease
--       6   its partition's queue
-- ARGV  1   the part's name
--
-- Returns how many keys were deleted

local deleted = 0

local function check(key, answer)
  if type(answer) == 'table' and answer.err and answer.err:find('WRONGTYPE', 1, true) then
    deleted = deleted + redis.call('DEL', key)
  end
end

check(KEYS[1], redis.pcall('HLEN', KEYS[1]))
check(KEYS[2], redis.pcall('GETBIT', KEYS[2], 0))
check(KEYS[3], redis.pcall('HLEN', KEYS[3]))
check(KEYS[4], redis.pcall('GET', KEYS[4]))
check(KEYS[5], redis.pcall('GET', KEYS[5]))
check(KEYS[6], redis.pcall('ZCARD', KEYS[6]))

local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if all[i]:sub(1, 1) ~= '#' and all[i + 1]:sub(1, 1) == 'h' then
    local time = redis.call('TIME')
    -- NX: a part that is in its queue keeps its place.
    redis.call('ZADD', KEYS[6], 'NX', time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
    break
  end
end
return deleted
